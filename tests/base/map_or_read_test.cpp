// Which pieces are used through the map: small ones always, large ones if the data set fits and they are in memory.
#include "stoker/base/map_or_read.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace stoker {
namespace {

// A file whose map holds "a" and whose reads return "b".
struct Bytes {
    bool there = true;
    mutable int asked = 0;

    bool in_memory(std::uint64_t offset, std::uint64_t size) const {
        EXPECT_EQ(offset, 7U);
        EXPECT_GE(size, kReadBytes);
        ++asked;
        return there;
    }
    void read(std::uint64_t offset, std::span<std::byte> out) const {
        EXPECT_EQ(offset, 7U);
        std::ranges::fill(out, std::byte{'b'});
    }
};

// The first byte that a reader gets.
char got(const MapOrRead& rule, const Bytes& file, std::size_t size) {
    const std::string mapped(size, 'a');
    Buffer storage;
    const auto bytes = rule.get(std::as_bytes(std::span(mapped)), file, 7, storage);
    EXPECT_EQ(bytes.size(), size);
    EXPECT_TRUE(std::ranges::all_of(bytes, [&](std::byte byte) { return byte == bytes[0]; }));
    return std::to_integer<char>(bytes[0]);
}

TEST(MapOrRead, LargePiecesInMemoryOfSetsThatFit) {
    const MapOrRead fits(1000, 8000);
    const MapOrRead too_large(1001, 8000);
    for (const bool there : {true, false}) {
        const Bytes file{.there = there};
        for (const MapOrRead& rule : {fits, too_large, MapOrRead()}) {
            EXPECT_EQ(got(rule, file, kReadBytes - 1), 'a');
        }
        EXPECT_EQ(file.asked, 0) << "small pieces need no check";
        EXPECT_EQ(got(fits, file, kReadBytes), there ? 'a' : 'b');
        EXPECT_EQ(file.asked, 1);
        EXPECT_EQ(got(too_large, file, kReadBytes), 'b');
        EXPECT_EQ(got(MapOrRead(), file, kReadBytes), 'b');
        EXPECT_EQ(file.asked, 1);
    }
}

TEST(MapOrRead, WhatFitsIsMeasuredByTheMemoryOfTheProcess) {
    set_memory_limit(80 << 20);
    const MapOrRead fits(10 << 20);
    const MapOrRead too_large((10 << 20) + 1);
    set_memory_limit(0);
    EXPECT_EQ(got(fits, {}, kReadBytes), 'a');
    EXPECT_EQ(got(too_large, {}, kReadBytes), 'b');
}

TEST(MapOrRead, OnlyLargePiecesAreFetchedAhead) {
    const std::vector<std::byte> bytes(kReadBytes);
    int fetched = 0;
    const auto fetch = [&] { ++fetched; };
    prefetch_bytes(std::span(bytes).first(kReadBytes - 1), 0, fetch);
    prefetch_bytes(std::span(bytes).first(10), kPrefetchSamples, fetch);
    EXPECT_EQ(fetched, 0);
    prefetch_bytes(bytes, 0, fetch);
    prefetch_bytes(bytes, 100 * kPrefetchSamples, fetch);
    EXPECT_EQ(fetched, 2);
}

}  // namespace
}  // namespace stoker
