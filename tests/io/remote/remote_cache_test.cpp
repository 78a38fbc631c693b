// Caching of remote files, objects that must not be cached, and random faults under many readers.
#include <gmock/gmock.h>

#include <cstring>
#include <random>
#include <thread>

#include "io/remote/remote_support.h"
#include "support/temp_dir.h"

namespace stoker {
namespace {

using testing::HttpServer;
using testing::SeenRequest;
using testing::ServerFault;
using testing::TempDir;
using Kind = ServerFault::Kind;
using testing::make_bytes;
using testing::own_shared;
using testing::quick;
using testing::read_text_at;
using testing::RemoteFileTest;
using testing::thrown_by;

TEST_F(RemoteFileTest, TheDiskCacheAnswersTheSecondTime) {
    const TempDir dir;
    RemoteOptions options = quick();
    options.cache_dir = dir.path();
    options.cache_bytes = 10 << 20;
    EXPECT_EQ(read_text_at(open(options), 0, bytes_.size()), bytes_);
    server_.forget_seen();
    shared_ = own_shared();
    EXPECT_EQ(read_text_at(open(options), 0, bytes_.size()), bytes_);
    EXPECT_EQ(server_.seen().size(), 1U);  // only to compare the version
    bytes_ = make_bytes(100'000, 3);
    server_.put("/object", {.bytes = bytes_, .etag = "\"v2\""});
    EXPECT_EQ(read_text_at(open(options), 0, bytes_.size()), bytes_);
}

// Without a strong ETag equal versions do not mean equal bytes.
TEST_F(RemoteFileTest, NothingIsCachedWithoutAStrongVersion) {
    for (const char* etag : {"W/\"v1\"", ""}) {
        const TempDir dir;
        RemoteOptions options = quick();
        options.cache_dir = dir.path();
        options.cache_bytes = 10 << 20;
        options.block_bytes = options.request_bytes = 65536;
        bytes_ = make_bytes(100'000, 5);
        server_.put("/object", {.bytes = bytes_, .etag = etag});
        shared_ = own_shared();
        EXPECT_FALSE(open(options).settled());
        EXPECT_EQ(read_text_at(open(options), 0, bytes_.size()), bytes_);
        bytes_ = make_bytes(100'000, 6);
        server_.put("/object", {.bytes = bytes_, .etag = etag});
        shared_ = own_shared();
        EXPECT_EQ(read_text_at(open(options), 0, bytes_.size()), bytes_);
    }
    server_.put("/object", {.bytes = bytes_, .etag = "W/\"v1\""});
    EXPECT_EQ(second_request_after_a_break(), 0U);  // all of it again: the halves could be of two versions
}

TEST_F(RemoteFileTest, ObjectsThatDifferOnlyInTheirQueryHaveNamesOfTheirOwn) {
    server_.put("/object?part=1", {.bytes = bytes_});
    server_.put("/object?part=2", {.bytes = bytes_});
    const RemoteFile one = open(quick(), "/object?part=1");
    const RemoteFile two = open(quick(), "/object?part=2");
    EXPECT_EQ(one.name(), two.name());  // as messages show it
    EXPECT_NE(one.identity(), two.identity());
    EXPECT_TRUE(one.settled());
}

// Many readers, prefetching, little memory, a small disk cache, and a random fault in every third answer.
TEST_F(RemoteFileTest, RandomFaultsNeverChangeAByte) {
    const TempDir dir;
    for (std::uint64_t seed = 1; seed <= 6; ++seed) {
        shared_ = own_shared(12 * 4096);
        RemoteOptions options = quick();
        options.patience = std::chrono::milliseconds(10'000);
        if (seed % 2 == 0) {
            options.cache_dir = dir.path();
            options.cache_bytes = 100'000;
        }
        const RemoteFile file = open(options);
        std::mutex mutex;
        std::minstd_rand random(static_cast<unsigned>(seed));
        server_.set_faults([&](const SeenRequest&) {
            constexpr std::array kKinds = {Kind::status, Kind::short_body, Kind::short_length, Kind::long_body,
                                           Kind::reset,  Kind::no_answer,  Kind::other_range};
            const std::scoped_lock lock(mutex);
            ServerFault fault{.kind = random() % 3 != 0 ? Kind::none : kKinds[random() % kKinds.size()], .status = 503};
            fault.bytes = random() % 8192;
            return fault;
        });
        std::vector<std::thread> readers;
        for (unsigned reader = 0; reader < 4; ++reader) {
            readers.emplace_back([&, reader] {
                std::minstd_rand mine(static_cast<unsigned>(seed * 10 + reader));
                for (int i = 0; i < 30; ++i) {
                    const ByteRange range{.offset = mine() % 90'000, .size = 1 + mine() % 10'000};
                    const ByteRange later{.offset = mine() % 90'000, .size = 1 + mine() % 10'000};
                    file.prefetch(std::span(&later, 1));
                    EXPECT_EQ(read_text_at(file, range.offset, range.size), bytes_.substr(range.offset, range.size));
                }
            });
        }
        for (std::thread& reader : readers) {
            reader.join();
        }
        server_.set_faults({});
    }
}

}  // namespace
}  // namespace stoker
