// The layout of a dct record (FORMAT.md): a header, the sizes of the chunks, the chunks, and the JPEG's bytes
// before and after its entropy-coded data. Internal to codecs/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "stoker/codecs/jpeg/jpeg_frame.h"

namespace stoker {

inline constexpr unsigned char kDctMagic[4] = {0xdc, 'D', 'C', 'T'};
inline constexpr int kDctVersion = 1;
// The maximum MCU rows in a compressed group. Limits the memory that a small record can make a reader allocate.
inline constexpr int kMaxGroupRows = 8;

struct DctFlags {
    static constexpr std::uint8_t kZstd = 1;         // a chunk is a compressed group, not one segment
    static constexpr std::uint8_t kExactFile = 2;    // the JPEG can be restored byte for byte
    static constexpr std::uint8_t kProgressive = 4;  // the JPEG was progressive
    static constexpr std::uint8_t kWide = 8;         // chunk sizes are uint32, not uint16
    static constexpr std::uint8_t kAns = 16;         // a chunk is a group of rANS; excludes kZstd
    static constexpr std::uint8_t kSmall = 32;       // quantisation steps are uint8, and the head is compressed
    static constexpr std::uint8_t kGroups = kZstd | kAns;
    static constexpr std::uint8_t kAll = 63;
};

struct DctHeader {
    JpegFrame frame;
    std::uint8_t flags = 0;
    std::uint8_t orientation = 1;
    std::uint8_t group_rows = 1;      // MCU rows per group
    std::span<const std::byte> head;  // the JPEG file up to the end of its first scan header; with kSmall, compressed
    std::span<const std::byte> tail;  // the JPEG file after its entropy-coded data
    std::vector<std::uint32_t> ends;  // the end of each chunk within `body`
    std::span<const std::byte> body;

    int segments_per_mcu_row() const;
    bool grouped() const { return (flags & DctFlags::kGroups) != 0; }
    int chunks() const;  // the number of segments or groups
    std::span<const std::byte> chunk(int i) const;
};

// Reads a record's header into `header`, reusing its memory. Throws DataError for invalid records.
void read_dct_header(std::span<const std::byte> record, DctHeader& header);

// The largest head that is compressed.
inline constexpr std::size_t kMaxPackedHead = std::size_t{1} << 20;

// A head for a record with kSmall; and the JPEG's head from any record, which throws DataError.
std::vector<std::byte> pack_head(const JpegFrame& frame, std::span<const std::byte> head);
std::vector<std::byte> unpack_head(const DctHeader& header);

// What both compress it with: the segments of four Huffman tables, then each component's steps in zigzag order.
std::vector<std::byte> head_dictionary(const JpegFrame& frame);

// Writes a complete record.
std::vector<std::byte> write_dct_record(const DctHeader& header);

}  // namespace stoker
