// Reads a byte file, local or remote, from front to back with announcements ahead, as a loader reads a shard: the rate,
// or the bytes themselves for comparison with another program. bench/remote.py measures it against curl.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "stoker/base/error.h"
#include "stoker/io/byte_file.h"

namespace {

using namespace stoker;

struct Options {
    std::string name;
    std::string output;  // a file for the bytes; empty: they are dropped
    RemoteOptions remote = {};
    std::uint64_t piece = 1 << 20;
    std::uint64_t ahead = 64 << 20;
};

Options parse(int count, char** arguments) {
    Options options;
    for (int i = 1; i < count; ++i) {
        const std::string word = arguments[i];
        const auto number = [&] { return i + 1 < count ? std::atoll(arguments[++i]) : 0; };
        if (word == "--output" && i + 1 < count) {
            options.output = arguments[++i];
        } else if (word == "--cache-dir" && i + 1 < count) {
            options.remote.cache_dir = arguments[++i];
        } else if (word == "--cache-bytes") {
            options.remote.cache_bytes = number();
        } else if (word == "--block") {
            options.remote.block_bytes = number();
        } else if (word == "--request") {
            options.remote.request_bytes = number();
        } else if (word == "--patience-ms") {
            options.remote.patience = std::chrono::milliseconds(number());
        } else if (word == "--piece") {
            options.piece = static_cast<std::uint64_t>(number());
        } else if (word == "--ahead") {
            options.ahead = static_cast<std::uint64_t>(number());
        } else {
            options.name = word;
        }
    }
    return options;
}

void run(const Options& options) {
    const auto start = std::chrono::steady_clock::now();
    const auto file = open_byte_file(options.name, options.remote);
    std::FILE* const output = options.output.empty() ? nullptr : std::fopen(options.output.c_str(), "wb");
    std::vector<std::byte> piece(options.piece);
    std::uint64_t announced = 0;
    for (std::uint64_t offset = 0; offset < file->size(); offset += options.piece) {
        const std::uint64_t until = std::min(file->size(), offset + options.ahead);
        if (options.ahead > 0 && (until >= announced + options.ahead / 4 || until == file->size()) &&
            until > announced) {
            const ByteRange range{.offset = announced, .size = until - announced};
            file->prefetch(std::span(&range, 1));
            announced = until;
        }
        const auto some = std::span(piece).first(std::min(options.piece, file->size() - offset));
        file->read(offset, some);
        if (output != nullptr && std::fwrite(some.data(), 1, some.size(), output) != some.size()) {
            throw errno_error(options.output, "room to write");
        }
    }
    if (output != nullptr && std::fclose(output) != 0) {
        throw errno_error(options.output, "room to write");
    }
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    fmt::print("{{\"bytes\": {}, \"seconds\": {:.6f}}}\n", file->size(), seconds.count());
}

}  // namespace

int main(int count, char** arguments) {
    try {
        run(parse(count, arguments));
        return 0;
    } catch (const stoker::Error& error) {
        fmt::print(stderr, "remote_bench: {}\n", error.what());
        return 1;
    }
}
