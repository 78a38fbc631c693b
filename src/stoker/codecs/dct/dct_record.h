// The layout of a dct record, docs/dct-codec.md: a fixed header, the sizes of its segments, the segments, and the
// JPEG's own bytes around its entropy-coded data. Internal to codecs/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "stoker/codecs/jpeg/frame.h"

namespace stoker {

inline constexpr unsigned char kDctMagic[4] = {0xdc, 'D', 'C', 'T'};
inline constexpr int kDctVersion = 1;
// MCU rows in a compressed group: what a small record can make a reader take memory for.
inline constexpr int kMaxGroupRows = 8;

struct DctFlags {
    static constexpr std::uint8_t kZstd = 1;         // segments are compressed, a group at a time
    static constexpr std::uint8_t kExactFile = 2;    // the scan's bytes can be made again
    static constexpr std::uint8_t kProgressive = 4;  // the JPEG was
    static constexpr std::uint8_t kWide = 8;         // sizes are uint32, not uint16
    static constexpr std::uint8_t kAll = 15;
};

struct DctHeader {
    Frame frame;
    std::uint8_t flags = 0;
    std::uint8_t orientation = 1;
    std::uint8_t group_rows = 1;      // MCU rows that are compressed together
    std::span<const std::byte> head;  // of the JPEG file, up to its (first) scan
    std::span<const std::byte> tail;  // of the JPEG file, behind its (last) scan
    std::vector<std::uint32_t> ends;  // of each segment, or group, within `body`
    std::span<const std::byte> body;

    int segments_per_mcu_row() const;
    int chunks() const;  // segments, or groups
    std::span<const std::byte> chunk(int i) const;
};

// Reads a record's header into `header`, whose memory is reused. Throws DataError for anything that cannot be.
void read_dct_header(std::span<const std::byte> record, DctHeader& header);

// The header and sizes for a body that follows; `ends` are those of its chunks.
std::vector<std::byte> write_dct_record(const DctHeader& header);

}  // namespace stoker
