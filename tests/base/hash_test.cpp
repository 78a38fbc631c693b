// XXH3's published values (the sanity table of the xxHash project). Files and checkpoints depend on them.
#include "stoker/base/hash.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace stoker::hash_test {
namespace {

constexpr std::uint64_t kPrime64 = 11400714785074694797ull;

// The input of xxHash's sanity checks.
std::vector<std::byte> sanity_bytes(std::size_t size) {
    std::vector<std::byte> bytes(size);
    std::uint64_t generator = 2654435761u;
    for (std::byte& byte : bytes) {
        byte = static_cast<std::byte>(generator >> 56);
        generator *= kPrime64;
    }
    return bytes;
}

TEST(Hash, MatchesThePublishedValues) {
    struct Row {
        std::size_t size;
        std::uint64_t seed;
        std::uint64_t value;
    };
    // One row for each of the algorithm's length classes.
    for (const Row& row :
         {Row{0, 0, 0x2D06800538D394C2}, Row{0, kPrime64, 0xA8A6B918B2F0364A}, Row{1, 0, 0xC44BDFF4074EECDB},
          Row{1, kPrime64, 0x032BE332DD766EF8}, Row{6, 0, 0x27B56A84CD2D7325}, Row{12, 0, 0xA713DAF0DFBB77E7},
          Row{24, 0, 0xA3FE70BF9D3510EB}, Row{48, 0, 0x397DA259ECBA1F11}, Row{80, 0, 0xBCDEFBBB2C47C90A},
          Row{195, 0, 0xCD94217EE362EC3A}, Row{403, 0, 0xCDEB804D65C6DEA4}, Row{512, 0, 0x617E49599013CB6B},
          Row{2048, 0, 0xDD59E2C3A5F038E0}, Row{2367, 0, 0xCB37AEB9E5D361ED}}) {
        EXPECT_EQ(hash_bytes(sanity_bytes(row.size), row.seed), row.value) << row.size << " bytes, seed " << row.seed;
    }
}

// Long inputs use vectors that depend on the processor.
TEST(Hash, LongBytesHashAsTheyDoWithoutWideVectors) {
    const std::vector<std::byte> bytes = sanity_bytes(300'000);
    for (const std::size_t size : {239, 240, 241, 256, 1023, 1024, 1025, 4096, 110'592, 299'993}) {
        for (const std::size_t begin : {0, 1, 7}) {
            for (const std::uint64_t seed : {std::uint64_t{0}, kPrime64}) {
                const auto part = std::span(bytes).subspan(begin, size);
                EXPECT_EQ(hash_bytes(part, seed), XXH3_64bits_withSeed(part.data(), part.size(), seed))
                    << size << " bytes from " << begin;
            }
        }
    }
}

TEST(Hash, OfTextIsTheHashOfItsBytes) {
    using std::string_literals::operator""s;
    const std::string text = "class/\0photo.jpg"s;  // not cut at its zero byte
    ASSERT_EQ(text.size(), 16U);
    EXPECT_EQ(hash_text(text), hash_bytes(std::as_bytes(std::span(text))));
    EXPECT_EQ(hash_text(text, 5), hash_bytes(std::as_bytes(std::span(text)), 5));
    EXPECT_NE(hash_text(text, 5), hash_text(text, 6));
    EXPECT_EQ(hash_text(""), hash_bytes({}));
}

}  // namespace
}  // namespace stoker::hash_test
