// A remote file on the test's own server, with small blocks and short pauses.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "stoker/base/rng.h"
#include "stoker/io/remote/remote_file.h"
#include "support/http_server.h"

namespace stoker::testing {

inline std::string make_bytes(std::size_t size, std::uint64_t seed = 1) {
    Rng rng({.seed = seed});
    std::string bytes(size, '\0');
    for (char& c : bytes) {
        c = static_cast<char>(rng.next());
    }
    return bytes;
}

inline RemoteOptions quick() {
    RemoteOptions options;
    options.block_bytes = 4096;
    options.request_bytes = 16384;
    options.first_pause = std::chrono::milliseconds(1);
    options.patience = std::chrono::milliseconds(2000);
    options.stall_time = std::chrono::seconds(1);
    return options;
}

inline RemoteShared own_shared(std::int64_t budget = 1 << 20, int threads = 4) {
    return {.client = std::make_shared<HttpClient>(), .pool = std::make_shared<BlockPool>(budget, threads)};
}

inline std::string read_text_at(const ByteFile& file, std::uint64_t offset, std::size_t size) {
    std::string text(size, '?');
    file.read(offset, std::as_writable_bytes(std::span(text)));
    return text;
}

// The message that `call` throws, checked to be one line.
template <typename Thrown, typename Call>
std::string thrown_by(Call call) {
    try {
        call();
    } catch (const Thrown& error) {
        EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
        return error.what();
    }
    ADD_FAILURE() << "nothing was thrown";
    return "";
}

class RemoteFileTest : public ::testing::Test {
  protected:
    RemoteFileTest() { server_.put("/object", {.bytes = bytes_}); }

    RemoteFile open(const RemoteOptions& options = quick(), const std::string& path = "/object") {
        return RemoteFile(server_.url(path), options, shared_);
    }

    // Reads a block whose answer ends after 50,000 bytes. Returns where the second request begins.
    std::optional<std::uint64_t> second_request_after_a_break() {
        RemoteOptions options = quick();
        options.block_bytes = options.request_bytes = 65536;
        const RemoteFile file = open(options);
        std::atomic<int> left = 1;
        server_.set_faults([&](const SeenRequest&) {
            return left-- > 0 ? ServerFault{.kind = ServerFault::Kind::short_body, .bytes = 50'000} : ServerFault{};
        });
        server_.forget_seen();
        EXPECT_EQ(read_text_at(file, 0, 65536), bytes_.substr(0, 65536));
        const auto seen = server_.seen();
        EXPECT_EQ(seen.size(), 2U);
        return seen.size() == 2 ? std::optional(seen[1].first) : std::nullopt;
    }

    HttpServer server_;
    std::string bytes_ = make_bytes(100'000);
    RemoteShared shared_ = own_shared();
};

}  // namespace stoker::testing
