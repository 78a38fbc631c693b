// The gzip reader: reads of any size return the same bytes; damage and truncation are distinguished.
#include "stoker/io/gzip.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/base/rng.h"

namespace stoker {
namespace {

std::vector<std::byte> noise(std::size_t count) {
    Rng rng({.seed = 1});
    std::vector<std::byte> bytes(count);
    std::ranges::generate(bytes, [&] { return static_cast<std::byte>(rng.below(17)); });
    return bytes;
}

std::vector<std::byte> pack(std::span<const std::byte> bytes) {
    const std::span<const std::byte> pieces[] = {bytes.first(bytes.size() / 3), bytes.subspan(bytes.size() / 3)};
    const Buffer packed = gzip(pieces);
    return {packed.data(), packed.data() + packed.size()};
}

TEST(Gzip, ReadsOfAnySizeGiveTheSameBytes) {
    const auto bytes = noise(100'000);
    const auto packed = pack(bytes);
    EXPECT_TRUE(is_gzip(packed));
    EXPECT_LT(packed.size(), bytes.size() * 3 / 4);
    for (const std::size_t step : {std::size_t{1}, std::size_t{7}, std::size_t{4096}, bytes.size() + 1}) {
        GzipReader reader(packed);
        std::vector<std::byte> got(bytes.size() + step);
        std::size_t done = 0;
        while (const std::size_t count = reader.read(std::span(got).subspan(done, step))) {
            done += count;
        }
        got.resize(done);
        EXPECT_EQ(got, bytes) << "steps of " << step;
        EXPECT_FALSE(reader.truncated());
        EXPECT_EQ(reader.offset(), static_cast<std::int64_t>(packed.size()));
    }
}

TEST(Gzip, DistinguishesTruncationDamageAndTrailingBytes) {
    const auto bytes = noise(10'000);
    auto packed = pack(bytes);
    std::vector<std::byte> out(bytes.size() + 1);

    const auto all_but_one = std::span(packed).first(packed.size() - 1);
    GzipReader cut(all_but_one);
    EXPECT_EQ(cut.read(out), bytes.size());  // all there but the checksum
    EXPECT_TRUE(cut.truncated());

    auto damaged = packed;
    damaged[damaged.size() - 6] ^= std::byte{1};  // in the checksum
    GzipReader wrong(damaged);
    EXPECT_THROW(wrong.read(out), DataError);

    packed.push_back(std::byte{'x'});
    GzipReader trailing(packed);
    EXPECT_THROW(trailing.read(out), DataError);
}

TEST(Gzip, TheSameBytesGiveTheSameFile) {
    const auto bytes = noise(1000);
    EXPECT_EQ(pack(bytes), pack(bytes));
    EXPECT_FALSE(is_gzip(bytes));
    EXPECT_FALSE(is_gzip({}));
    const auto empty = pack({});
    GzipReader reader(empty);
    std::byte extra{};
    EXPECT_EQ(reader.read(std::span(&extra, 1)), 0u);
    EXPECT_FALSE(reader.truncated());
}

}  // namespace
}  // namespace stoker
