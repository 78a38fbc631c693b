// The gzip reader: reads of any size return the same bytes; damage and truncation are distinguished; streams of zlib.
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

// zlib's own format around the blocks of a gzip file.
std::vector<std::byte> as_zlib(std::span<const std::byte> bytes) {
    constexpr std::size_t kHeader = 10;
    constexpr std::size_t kTrailer = 8;
    const auto packed = pack(bytes);
    std::vector<std::byte> stream = {std::byte{0x78}, std::byte{0x9c}};
    stream.insert(stream.end(), packed.begin() + kHeader, packed.end() - kTrailer);
    std::uint32_t low = 1;
    std::uint32_t high = 0;
    for (const std::byte byte : bytes) {  // Adler-32
        low = (low + std::to_integer<std::uint32_t>(byte)) % 65521;
        high = (high + low) % 65521;
    }
    for (const std::uint32_t part : {high >> 8, high, low >> 8, low}) {
        stream.push_back(static_cast<std::byte>(part & 0xff));
    }
    return stream;
}

TEST(Gzip, ReadsStreamsOfZlib) {
    const auto bytes = noise(10'000);
    auto packed = as_zlib(bytes);
    EXPECT_TRUE(is_zlib(packed));
    EXPECT_FALSE(is_gzip(packed));
    EXPECT_FALSE(is_zlib(pack(bytes)));
    std::vector<std::byte> got(bytes.size() + 1);
    GzipReader reader(packed, true);
    got.resize(reader.read(got));
    EXPECT_EQ(got, bytes);
    EXPECT_FALSE(reader.truncated());

    const auto read = [&](std::span<const std::byte> stream) {
        GzipReader again(stream, true);
        std::vector<std::byte> out(bytes.size() + 1);
        again.read(out);
        return again.truncated();
    };
    EXPECT_TRUE(read(std::span(packed).first(packed.size() - 5)));
    EXPECT_THROW(read(pack(bytes)), DataError);
    auto longer = packed;
    longer.insert(longer.end(), packed.begin(), packed.end());  // zlib's streams do not follow each other
    EXPECT_THROW(read(longer), DataError);
    packed.back() ^= std::byte{1};
    EXPECT_THROW(read(packed), DataError);
}

}  // namespace
}  // namespace stoker
