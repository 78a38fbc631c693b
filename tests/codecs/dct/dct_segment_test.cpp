// Segments: written blocks are read back on every instruction set and for every part of a row. Damaged segments are
// refused or read with the same result on every set, without reads beyond the documented padding.
#include "stoker/codecs/dct/dct_segment.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>

#include "codecs/jpeg/jpeg_files.h"
#include "stoker/codecs/jpeg/jpeg_frame.h"

namespace stoker {
namespace {

using namespace stoker::testing;

constexpr std::uint8_t kCanary = 0xA5;

// Memory that ends at the end of its heap block, so that a sanitizer detects every read beyond it. Aligned to 64 bytes.
template <typename Value>
class ExactMemory {
  public:
    explicit ExactMemory(std::size_t count) : memory_(sizeof(Value) * count), count_(count) {
        std::memset(memory_.data(), kCanary, memory_.size());
    }
    Value* data() { return reinterpret_cast<Value*>(memory_.data()); }
    bool same(ExactMemory& other, std::size_t count) {
        return std::memcmp(data(), other.data(), sizeof(Value) * count) == 0;
    }
    std::size_t size() const { return count_; }

  private:
    Buffer memory_;
    std::size_t count_;
};

// Bytes at an odd address, followed by `padding` readable bytes.
class OddBytes {
  public:
    OddBytes(std::size_t size, std::size_t padding, std::size_t odd, Rng& rng)
        : odd_(odd), memory_(odd + size + padding) {
        for (std::uint8_t& byte : memory_) {
            byte = static_cast<std::uint8_t>(rng.chance(0.2f) ? 0 : rng.next());
        }
    }
    std::uint8_t* data() { return memory_.data() + odd_; }
    std::int8_t* chars() { return reinterpret_cast<std::int8_t*>(data()); }

  private:
    std::size_t odd_;
    std::vector<std::uint8_t> memory_;
};

std::uint32_t some_count(Rng& rng) {
    return rng.below(rng.chance(0.2f) ? 1000 : 140);
}

TEST(DctSegmentKernels, TheLastSetIsTheOneInUse) {
    const auto sets = segment_kernels();
    ASSERT_FALSE(sets.empty());
    EXPECT_STREQ(sets.front().name, "plain");
    EXPECT_EQ(&best_segment_kernels(), &sets.back());
}

TEST(DctSegmentKernels, LengthsOnEverySet) {
    Rng rng({.seed = 1});
    for (const SegmentKernels& set : segment_kernels()) {
        for (int i = 0; i < 4000 / kSlow; ++i) {
            const std::size_t count = some_count(rng);
            OddBytes in((count + 1) / 2, kSegmentPadding, rng.below(8), rng);
            const bool all_valid = rng.chance(0.5f);
            for (std::size_t k = 0; k < count && all_valid; ++k) {  // an unused half of the last byte stays random
                std::uint8_t& byte = in.data()[k / 2];
                const std::uint32_t length = rng.below(9);
                byte = static_cast<std::uint8_t>(k % 2 == 0 ? (byte & 0xF0u) | length : (byte & 0x0Fu) | length << 4);
            }
            ExactMemory<std::uint8_t> expected(count + 127);
            ExactMemory<std::uint8_t> got(count + 127);
            const bool valid = kPlainSegmentKernels.unpack_lengths(in.data(), count, expected.data());
            ASSERT_EQ(set.unpack_lengths(in.data(), count, got.data()), valid) << set.name << " " << count;
            ASSERT_TRUE(got.same(expected, count)) << set.name << " " << count;
            ASSERT_TRUE(!all_valid || valid);
        }
    }
}

TEST(DctSegmentKernels, SumsOnEverySet) {
    Rng rng({.seed = 2});
    for (const SegmentKernels& set : segment_kernels()) {
        for (int i = 0; i < 4000 / kSlow; ++i) {
            const std::size_t count = some_count(rng);
            OddBytes in(count, 64, rng.below(8), rng);
            ASSERT_EQ(set.sum(in.data(), count), kPlainSegmentKernels.sum(in.data(), count)) << set.name;
            ASSERT_EQ(set.count_bits(in.data(), count), kPlainSegmentKernels.count_bits(in.data(), count)) << set.name;
            ASSERT_EQ(set.count_zeros(in.data(), 2 * count), kPlainSegmentKernels.count_zeros(in.data(), 2 * count));
            for (std::size_t k = rng.below(4); k < count; k += 1 + rng.below(9)) {
                in.data()[k] = kWideMarker;
            }
            ASSERT_EQ(set.count_markers(in.data(), count), kPlainSegmentKernels.count_markers(in.data(), count));
            const std::size_t odd = count == 0 ? 0 : 2 * count - 1;
            ASSERT_EQ(set.count_zeros(in.data(), odd), kPlainSegmentKernels.count_zeros(in.data(), odd)) << set.name;
        }
    }
}

TEST(DctSegmentKernels, ValuesOnEverySet) {
    Rng rng({.seed = 3});
    for (const SegmentKernels& set : segment_kernels()) {
        for (int i = 0; i < 4000 / kSlow; ++i) {
            const std::size_t first = some_count(rng);
            const std::size_t count = some_count(rng);
            OddBytes nibbles((first + count + 1) / 2, kSegmentPadding, rng.below(8), rng);
            OddBytes escapes(count, kSegmentPadding, rng.below(8), rng);
            ExactMemory<std::int8_t> expected(64 + count + 127);
            ExactMemory<std::int8_t> got(64 + count + 127);
            const std::size_t used =
                kPlainSegmentKernels.unpack(nibbles.data(), first, count, escapes.chars(), expected.data() + 64);
            ASSERT_EQ(set.unpack(nibbles.data(), first, count, escapes.chars(), got.data() + 64), used) << set.name;
            ASSERT_EQ(std::memcmp(expected.data() + 64, got.data() + 64, count), 0)
                << set.name << " " << first << " " << count;
        }
    }
}

TEST(DctSegmentKernels, BlocksOnEverySet) {
    Rng rng({.seed = 4});
    for (const SegmentKernels& set : segment_kernels()) {
        for (int i = 0; i < 2000 / kSlow; ++i) {
            const int count = 1 + static_cast<int>(rng.below(20));
            const auto blocks = static_cast<std::size_t>(count);
            OddBytes masks(8 * blocks, 64, rng.below(8), rng);
            OddBytes values(64 * blocks, 64, rng.below(8), rng);
            std::vector<std::uint8_t> lengths(blocks + 64);
            std::vector<std::int16_t> dc(blocks + 32);
            for (std::size_t k = 0; k < blocks; ++k) {
                lengths[k] = static_cast<std::uint8_t>(rng.below(9));
                dc[k] = static_cast<std::int16_t>(rng.next());
            }
            ExactMemory<std::int16_t> expected(64 * blocks);
            ExactMemory<std::int16_t> got(64 * blocks);
            std::vector<std::uint32_t> starts(static_cast<std::size_t>(count));
            kPlainSegmentKernels.expand(lengths.data(), masks.data(), values.chars(), dc.data(), count, starts.data(),
                                        expected.data());
            set.expand(lengths.data(), masks.data(), values.chars(), dc.data(), count, starts.data(), got.data());
            ASSERT_TRUE(got.same(expected, 64 * blocks)) << set.name << " " << count;
        }
    }
}

// ---- whole segments ----

constexpr int kEdges[] = {0,    1,   -1,   7,   -7,   8,    -8,    9,     -9,     127,    -127,  128,
                          -128, 129, -129, 255, -256, 1023, -1024, 32767, -32767, -32768, 32766, 2};

enum class Fill { empty, sparse, edges, full, wild };

std::vector<std::int16_t> random_blocks(int count, Fill fill, Rng& rng) {
    std::vector<std::int16_t> blocks(64 * static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < blocks.size(); ++i) {
        const int edge = kEdges[rng.below(std::size(kEdges))];
        const bool dc = i % 64 == 0;
        const auto wild = static_cast<std::int16_t>(rng.next());
        switch (fill) {
            case Fill::empty:
                break;
            case Fill::sparse:
                blocks[i] = rng.chance(dc ? 0.9f : 0.1f) ? static_cast<std::int16_t>(edge % 100) : std::int16_t{0};
                break;
            case Fill::edges:
                blocks[i] = rng.chance(0.5f) ? static_cast<std::int16_t>(edge) : std::int16_t{0};
                break;
            case Fill::full:
                blocks[i] = static_cast<std::int16_t>(edge == 0 ? 3 : edge);
                break;
            case Fill::wild:
                blocks[i] = wild;
        }
    }
    return blocks;
}

// Exactly the readable bytes that a reader may rely on.
Bytes padded(const SegmentParts& parts) {
    Bytes segment = joined({parts.front, parts.masks, parts.values, parts.escapes});
    segment.resize(segment.size() + kSegmentPadding, std::byte{0x88});
    segment.shrink_to_fit();
    return segment;
}

std::span<const std::byte> without_padding(const Bytes& segment) {
    return std::span(segment).first(segment.size() - kSegmentPadding);
}

TEST(DctSegment, EveryPartOfARowIsReadBack) {
    Rng rng({.seed = 5});
    for (const SegmentKernels& set : segment_kernels()) {
        SegmentScratch scratch;
        for (int count = 1; count <= 21; count += kSlow) {
            for (const Fill fill : {Fill::empty, Fill::sparse, Fill::edges, Fill::full, Fill::wild}) {
                const auto blocks = random_blocks(count, fill, rng);
                SegmentParts parts;
                write_segment(blocks.data(), count, parts);
                const Bytes segment = padded(parts);
                for (int first = 0; first < count; ++first) {
                    for (int wanted = 1; first + wanted <= count; ++wanted) {
                        ExactMemory<std::int16_t> out(64 * static_cast<std::size_t>(wanted));
                        ASSERT_TRUE(
                            read_segment(without_padding(segment), count, first, wanted, set, scratch, out.data()));
                        ASSERT_EQ(std::memcmp(out.data(), blocks.data() + std::ptrdiff_t{64} * first,
                                              sizeof(std::int16_t) * out.size()),
                                  0)
                            << set.name << ", blocks " << first << " + " << wanted << " of " << count << ", fill "
                            << static_cast<int>(fill);
                    }
                }
            }
        }
    }
}

TEST(DctSegment, LongRowsAreReadBack) {
    Rng rng({.seed = 6});
    for (const SegmentKernels& set : segment_kernels()) {
        SegmentScratch scratch;
        for (const int count : {127, 128, 129, 500, 8192}) {
            for (const Fill fill : {Fill::sparse, Fill::full, Fill::wild}) {
                const auto blocks = random_blocks(count, fill, rng);
                SegmentParts parts;
                write_segment(blocks.data(), count, parts);
                const Bytes segment = padded(parts);
                ExactMemory<std::int16_t> out(blocks.size());
                ASSERT_TRUE(read_segment(without_padding(segment), count, 0, count, set, scratch, out.data()));
                ASSERT_EQ(std::memcmp(out.data(), blocks.data(), sizeof(std::int16_t) * blocks.size()), 0);
            }
        }
    }
}

// Each value at each position, alone and after others, and each DC difference.
TEST(DctSegment, EveryEdgeAtEveryPlace) {
    SegmentScratch scratch;
    for (const int edge : kEdges) {
        for (std::size_t place = 0; place < 64; ++place) {
            std::vector<std::int16_t> blocks(std::size_t{64} * 3);
            blocks[place] = static_cast<std::int16_t>(edge);
            blocks[64 + place] = -8;
            blocks[2 * 64 + place] = static_cast<std::int16_t>(edge);
            blocks[2 * 64 + 63] = static_cast<std::int16_t>(edge);
            SegmentParts parts;
            write_segment(blocks.data(), 3, parts);
            const Bytes segment = padded(parts);
            for (const SegmentKernels& set : segment_kernels()) {
                ExactMemory<std::int16_t> out(blocks.size());
                ASSERT_TRUE(read_segment(without_padding(segment), 3, 0, 3, set, scratch, out.data()));
                ASSERT_EQ(std::memcmp(out.data(), blocks.data(), sizeof(std::int16_t) * blocks.size()), 0)
                    << set.name << ", " << edge << " at " << place;
            }
        }
    }
}

// The example of codecs/dct/FORMAT.md, so that a change of the format is noticed.
TEST(DctSegment, HasTheBytesOfTheFormat) {
    std::vector<std::int16_t> blocks(std::size_t{64} * 3);
    blocks[0] = 5;                     // step 5
    blocks[1] = -8;                    // k = 1: bit 0
    blocks[8] = 100;                   // k = 2: bit 1, an escape
    blocks[63] = 7;                    // k = 63: bit 62
    blocks[64] = 205;                  // step 200: wide
    blocks[128] = 205 - 128;           // step -128: also wide
    blocks[128 + kZigzag[9]] = -1000;  // bit 8, the first wide escape
    blocks[128 + kZigzag[10]] = 128;   // bit 9, the second
    SegmentParts parts;
    write_segment(blocks.data(), 3, parts);
    EXPECT_EQ(parts.front, bytes_of({0x08, 0x02, 5, 0x80, 0x80, 200, 0, 0x80, 0xFF}));
    EXPECT_EQ(parts.masks, bytes_of({0x03, 0, 0, 0, 0, 0, 0, 0x40, 0x00, 0x03}));
    EXPECT_EQ(parts.values, bytes_of({0x08, 0x07, 0x00}));
    EXPECT_EQ(parts.escapes, bytes_of({100, 0x80, 0x80, 0x80, 0x00, 0x18, 0xFC}));
}

TEST(DctSegment, JoinedPartsAreMeasured) {
    Rng rng({.seed = 7});
    SegmentScratch scratch;
    for (int i = 0; i < 300 / kSlow; ++i) {
        SegmentParts together;
        std::vector<SegmentSizes> expected;
        std::vector<int> counts;
        for (int s = 0; s < 4; ++s) {
            const int count = 1 + static_cast<int>(rng.below(40));
            SegmentParts alone;
            const auto blocks = random_blocks(count, static_cast<Fill>(rng.below(5)), rng);
            write_segment(blocks.data(), count, alone);
            write_segment(blocks.data(), count, together);
            expected.push_back({alone.front.size(), alone.masks.size(), alone.values.size(), alone.escapes.size()});
            counts.push_back(count);
        }
        for (const SegmentKernels& set : segment_kernels()) {
            std::vector<Bytes> memory = {together.front, together.masks, together.values, together.escapes};
            std::span<const std::byte> parts[4];
            for (std::size_t p = 0; p < 4; ++p) {
                memory[p].resize(memory[p].size() + kSegmentPadding);
                parts[p] = without_padding(memory[p]);
            }
            for (std::size_t s = 0; s < counts.size(); ++s) {
                SegmentSizes sizes;
                ASSERT_TRUE(measure_segment(parts, counts[s], set, scratch, sizes));
                const std::size_t taken[] = {sizes.front, sizes.masks, sizes.values, sizes.escapes};
                ASSERT_EQ(sizes.front, expected[s].front);
                ASSERT_EQ(sizes.masks, expected[s].masks);
                ASSERT_EQ(sizes.values, expected[s].values);
                ASSERT_EQ(sizes.escapes, expected[s].escapes);
                if (s + 1 == counts.size()) {  // each part shortened by one byte
                    for (std::size_t p = 0; p < 4; ++p) {
                        if (taken[p] > 0) {
                            std::span<const std::byte> cut[4] = {parts[0], parts[1], parts[2], parts[3]};
                            cut[p] = cut[p].first(taken[p] - 1);
                            ASSERT_FALSE(measure_segment(cut, counts[s], set, scratch, sizes)) << set.name << p;
                        }
                    }
                }
                for (std::size_t p = 0; p < 4; ++p) {
                    parts[p] = parts[p].subspan(taken[p]);
                }
            }
        }
    }
}

// Damage of every kind: every set returns the same result and the same blocks.
TEST(DctSegment, DamageIsTheSameOnEverySet) {
    Rng rng({.seed = 8});
    const auto sets = segment_kernels();
    std::vector<SegmentScratch> scratch(sets.size());
    int refused = 0;
    int read = 0;
    for (int i = 0; i < 20000 / kSlow; ++i) {
        const int count = 1 + static_cast<int>(rng.below(rng.chance(0.05f) ? 400 : 12));
        SegmentParts parts;
        write_segment(random_blocks(count, static_cast<Fill>(rng.below(5)), rng).data(), count, parts);
        Bytes segment = mutated(joined({parts.front, parts.masks, parts.values, parts.escapes}), rng);
        segment.resize(segment.size() + kSegmentPadding, static_cast<std::byte>(rng.below(256)));
        segment.shrink_to_fit();
        const int first = static_cast<int>(rng.below(static_cast<std::uint32_t>(count)));
        const int wanted = 1 + static_cast<int>(rng.below(static_cast<std::uint32_t>(count - first)));
        ExactMemory<std::int16_t> expected(64 * static_cast<std::size_t>(wanted));
        const bool valid = read_segment(without_padding(segment), count, first, wanted, kPlainSegmentKernels,
                                        scratch[0], expected.data());
        ++(valid ? read : refused);
        for (std::size_t s = 1; s < sets.size(); ++s) {
            ExactMemory<std::int16_t> got(expected.size());
            ASSERT_EQ(read_segment(without_padding(segment), count, first, wanted, sets[s], scratch[s], got.data()),
                      valid);
            ASSERT_TRUE(!valid || got.same(expected, expected.size())) << sets[s].name;
        }
    }
    EXPECT_GT(refused, 1000 / kSlow);
    EXPECT_GT(read, 1000 / kSlow);
}

// All bits of all masks, including the last, which writers never set: the maximum number of values that a reader must
// have memory for.
TEST(DctSegment, MoreValuesThanABlockHas) {
    for (const SegmentKernels& set : segment_kernels()) {
        for (const int count : {1, 2, 64, 500, 3000}) {
            const auto blocks = static_cast<std::size_t>(count);
            Bytes segment(blocks / 2, std::byte{0x88});
            segment.resize(segment.size() + blocks % 2, std::byte{0x08});
            segment.resize(segment.size() + blocks, std::byte{1});          // DC steps
            segment.resize(segment.size() + 8 * blocks, std::byte{0xFF});   // masks
            segment.resize(segment.size() + 32 * blocks, std::byte{0x22});  // values
            segment.resize(segment.size() + kSegmentPadding);
            SegmentScratch scratch;
            ExactMemory<std::int16_t> out(64 * blocks);
            if (read_segment(without_padding(segment), count, 0, count, set, scratch, out.data())) {
                for (std::size_t i = 0; i < out.size(); ++i) {
                    ASSERT_EQ(out.data()[i], i % 64 == 0 ? static_cast<int>(i / 64) + 1 : 2) << set.name;
                }
            }
            ASSERT_GE(scratch.memory.size(), 64 + 64 * blocks + 127);
        }
    }
}

TEST(DctSegment, EveryTruncationGivesTheSameResultOnEverySet) {
    Rng rng({.seed = 9});
    const auto blocks = random_blocks(9, Fill::edges, rng);
    SegmentParts parts;
    write_segment(blocks.data(), 9, parts);
    const Bytes whole = joined({parts.front, parts.masks, parts.values, parts.escapes});
    for (std::size_t size = 0; size < whole.size(); ++size) {
        Bytes segment(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
        segment.resize(size + kSegmentPadding);
        for (const SegmentKernels& set : segment_kernels()) {
            SegmentScratch scratch;
            ExactMemory<std::int16_t> out(blocks.size());
            EXPECT_FALSE(read_segment(without_padding(segment), 9, 0, 9, set, scratch, out.data()))
                << set.name << " took " << size << " of " << whole.size() << " bytes";
        }
    }
}

}  // namespace
}  // namespace stoker
