// The inner loops from the bits of a baseline scan to coefficients, one set for each instruction set. Several pieces of
// a scan are decoded in turns: the look-ups of one piece form a chain, and those of others fill the time that it waits.
// All sets give the same coefficients. Internal to codecs/.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "stoker/codecs/jpeg/entry_points.h"
#include "stoker/codecs/jpeg/huffman_table.h"

namespace stoker {

inline constexpr int kMaxMcuBlocks = 10;  // T.81, B.2.3

// Kernels read so many bytes beyond a piece.
inline constexpr std::size_t kScanPadding = 64 * 32 / 8 + 64;

// The blocks of an MCU, in the scan's order, and their places in memory: that of MCU (row, column) is
// start + row * row_step + column * column_step.
struct ScanLayout {
    struct Block {
        int component = 0;
        const HuffmanTable* dc = nullptr;
        const HuffmanTable* ac = nullptr;
        std::size_t start = 0;  // in blocks, as the steps
        std::size_t row_step = 0;
        std::size_t column_step = 0;
    };
    std::array<Block, kMaxMcuBlocks> blocks;
    int mcu_blocks = 0;
    std::uint32_t mcus_wide = 0;
};

// MCUs that follow each other, row by row.
struct ScanPiece {
    std::uint64_t bit = 0;    // the first; afterwards the one behind the last
    std::uint64_t limit = 0;  // of bits: more were read if `bit` is beyond, or HuffmanError is thrown
    std::uint32_t first = 0;  // MCU, counted from row 0 of the layout
    std::uint32_t count = 0;  // at least 1
    std::array<int, 3> dc{};  // of each component's last block before; afterwards within
};

// The last bit of a piece that `next` follows, if its limit is the end of the byte with that bit.
inline std::uint64_t piece_end(const ScanPiece& piece, const EntryPoint& next) {
    return piece.limit - (next.bit > 0 ? 8U - next.bit : 0U);
}

struct ScanKernels {
    const char* name;  // plain, avx2

    // Decodes pieces of `bytes`, most significant bit first and without stuffed zeros, into `blocks`: (8, 8) each, in
    // natural order, aligned to 64 bytes. Throws HuffmanError for invalid bits.
    void (*decode)(const ScanLayout& layout, const std::uint8_t* bytes, std::span<ScanPiece> pieces,
                   std::int16_t* blocks);
};

extern const ScanKernels kPlainScanKernels;
extern const ScanKernels kAvx2ScanKernels;  // only on x86-64

// All sets that this processor supports, slowest first. best_scan_kernels() is the last.
std::span<const ScanKernels> scan_kernels();
const ScanKernels& best_scan_kernels();

}  // namespace stoker
