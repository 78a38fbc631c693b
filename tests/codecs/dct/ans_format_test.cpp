// What dct-ans stores, in fixed bytes: stored records stay readable only if the tables of the format never change. The
// writer, the reader and its reference share these tables, so the other tests would not see it.
#include <gtest/gtest.h>

#include <type_traits>

#include "codecs/dct/ans_golden.h"
#include "codecs/dct/ans_reference.h"
#include "codecs/jpeg/jpeg_files.h"
#include "stoker/codecs/dct/dct.h"
#include "stoker/codecs/dct/dct_record.h"

namespace stoker {
namespace {

using namespace stoker::testing;
using Blocks = AnsReference::Blocks;

template <typename Number>
void append_all(Bytes& bytes, const Number& numbers) {
    if constexpr (std::is_array_v<Number>) {
        for (const auto& part : numbers) {
            append_all(bytes, part);
        }
    } else {
        append_number(bytes, numbers, sizeof numbers, false);
    }
}

// The CRC-32 of the little-endian bytes of all numbers, in order.
template <typename Numbers>
std::uint32_t checksum(const Numbers& numbers) {
    Bytes bytes;
    append_all(bytes, numbers);
    return crc32(bytes);
}

// The blocks of a group by each instruction set equal `expected`, one element per plane.
void expect_blocks(const Bytes& group, const std::vector<AnsPlane>& planes, const std::vector<Blocks>& expected) {
    EXPECT_EQ(AnsReference::read(group, planes), expected);
    Bytes memory = group;
    memory.resize(group.size() + kSegmentPadding);
    Buffer row;
    for (const AnsKernels& kernels : ans_kernels()) {
        AnsGroupReader reader(kernels);
        reader.read(std::span(memory).first(group.size()), planes);
        for (std::size_t p = 0; p < planes.size(); ++p) {
            const std::size_t size = kBlockSize * planes[p].wide;
            row.resize(sizeof(std::int16_t) * size);
            auto* const got = reinterpret_cast<std::int16_t*>(row.data());
            for (std::size_t y = 0; y < planes[p].rows; ++y) {
                reader.blocks(p, y, 0, planes[p].wide, best_segment_kernels(), got);
                EXPECT_TRUE(std::equal(got, got + size, expected[p].begin() + static_cast<std::ptrdiff_t>(y * size)))
                    << kernels.name << ", plane " << p << ", row " << y;
            }
        }
    }
}

// Numbers of every size, from a generator that this file fixes.
Blocks made_up(std::size_t count, std::uint32_t& state) {
    Blocks blocks(kBlockSize * count);
    for (std::size_t i = 0; i < blocks.size(); ++i) {
        state = state * 1664525 + 1013904223;
        const std::uint32_t random = state >> 16;
        const std::size_t block = i / kBlockSize;
        if (i % kBlockSize == 0 || random % 64 < block % 13 * 5) {
            const std::size_t bits = block % 8 == 7 ? 15 : block % 8;
            blocks[i] = static_cast<std::int16_t>(static_cast<int>(random / 64 * 65 % (2U << bits)) - (1 << bits));
        }
    }
    return blocks;
}

TEST(AnsFormat, AStoredRecordIsRead) {
    const Bytes record = from_hex(kGoldenRecord);
    const Bytes jpeg = from_hex(kGoldenJpeg);
    Image image;
    ImageSink sink(image);
    DctDecoder().decode(record, sink);
    EXPECT_TRUE(same_pixels(image.view(), libjpeg_pixels(jpeg).view()));
    EXPECT_EQ(crc32(std::as_bytes(std::span(image.view().data, image.bytes()))), 0x6fce99c3);
    EXPECT_EQ(restore_jpeg(record), jpeg);
}

// All but the head, which depends on the version of zstd.
TEST(AnsFormat, TheSameRecordIsWritten) {
    const Bytes stored = from_hex(kGoldenRecord);
    const Bytes written = encode_dct(from_hex(kGoldenJpeg), DctKind::ans).bytes;
    DctHeader before;
    DctHeader now;
    read_dct_header(stored, before);
    read_dct_header(written, now);
    EXPECT_EQ(now.flags, before.flags);
    EXPECT_EQ(now.group_rows, before.group_rows);
    EXPECT_EQ(now.ends, before.ends);
    EXPECT_TRUE(std::ranges::equal(now.body, before.body));
    EXPECT_TRUE(std::ranges::equal(now.tail, before.tail));
    EXPECT_EQ(unpack_head(now), unpack_head(before));
}

TEST(AnsFormat, TheExampleOfThePage) {
    Blocks blocks(3 * kBlockSize);
    const auto set = [&blocks](std::size_t block, std::size_t k, std::int16_t value) {
        blocks[kBlockSize * block + kZigzag[k]] = value;
    };
    set(0, 0, 5);
    set(0, 1, -8);
    set(0, 2, 100);
    set(0, 63, 7);
    set(1, 0, 205);
    set(2, 0, 77);
    set(2, 9, -1000);
    set(2, 10, 128);
    const std::vector<AnsPlane> planes = {{.wide = 3, .rows = 1, .blocks = blocks.data()}};
    EXPECT_EQ(write_ans_group(planes), from_hex(kExampleGroup));
    expect_blocks(from_hex(kExampleGroup), planes, {blocks});
    const Bytes surplus = joined({from_hex(kExampleGroup), Bytes(7, std::byte{0xff})});
    expect_blocks(surplus, planes, {blocks});
}

TEST(AnsFormat, AGroupOfThreePlanes) {
    std::uint32_t state = 1;
    const std::vector<Blocks> blocks = {made_up(9 * 6, state), made_up(5 * 3, state), made_up(4 * 2, state)};
    const std::vector<AnsPlane> planes = {{.wide = 9, .rows = 6, .blocks = blocks[0].data()},
                                          {.wide = 5, .rows = 3, .blocks = blocks[1].data()},
                                          {.wide = 4, .rows = 2, .blocks = blocks[2].data()}};
    const Bytes group = write_ans_group(planes);
    EXPECT_EQ(group.size(), 2781u);
    EXPECT_EQ(crc32(group), 0xa6b1b8e5);
    expect_blocks(group, planes, blocks);
}

TEST(AnsFormat, TheTablesAreFixed) {
    const AnsSpecification& tables = kAnsSpecification;
    EXPECT_EQ(checksum(tables.count_frequencies), 0xb77d7042);
    EXPECT_EQ(checksum(tables.scale_frequencies), 0xd64f6b6a);
    EXPECT_EQ(checksum(tables.dc_frequencies), 0x060c6a17u);
    EXPECT_EQ(checksum(tables.mask_frequencies), 0x5bf35f2bu);
    EXPECT_EQ(checksum(tables.value_frequencies), 0xf77be0ea);
    EXPECT_EQ(checksum(tables.count_table), 0x96f33292);
    EXPECT_EQ(checksum(tables.scale_table), 0xfdae3a31);
    EXPECT_EQ(checksum(tables.dc_table), 0x02c96836u);
    EXPECT_EQ(checksum(tables.mask_table), 0x429becd4u);
    EXPECT_EQ(checksum(tables.value_table), 0xb4a65006);
}

// The Huffman tables of the dictionary are those of T.81, in the order in which the golden JPEG has them.
TEST(AnsFormat, TheDictionaryOfHeadsIsFixed) {
    constexpr std::size_t kTables = 432;  // bytes of the four DHT segments
    const Bytes jpeg = from_hex(kGoldenJpeg);
    JpegFrame frame;
    frame.components = 3;
    for (std::size_t c = 0; c < 3; ++c) {
        for (std::size_t i = 0; i < kBlockSize; ++i) {
            frame.component[c].quant[kZigzag[i]] = static_cast<std::uint16_t>(64 * c + i);
        }
    }
    const Bytes dictionary = head_dictionary(frame);
    const std::span<const std::byte> tables = std::span(dictionary).first(kTables);
    EXPECT_EQ(crc32(tables), 0xa5482f8c);
    EXPECT_NE(std::search(jpeg.begin(), jpeg.end(), tables.begin(), tables.end()), jpeg.end());
    ASSERT_EQ(dictionary.size(), kTables + 3 * kBlockSize);
    for (std::size_t i = 0; i < 3 * kBlockSize; ++i) {
        EXPECT_EQ(std::to_integer<std::size_t>(dictionary[kTables + i]), i);
    }
}

}  // namespace
}  // namespace stoker
