// Baseline Huffman coding of one interleaved scan (ITU-T T.81, annex F): coefficients to the very bytes that an
// encoder with the same tables and restart interval writes. Internal to codecs/.
#pragma once

#include <cstddef>
#include <vector>

#include "stoker/codecs/jpeg/jpeg_blocks.h"

namespace stoker {

// Whether an opened JPEG's first scan is one of these, and holds all components.
bool is_baseline_scan(const jpeg_decompress_struct& codec);

// The tables of each component.
struct HuffmanTables {
    JHUFF_TBL dc[3];
    JHUFF_TBL ac[3];
};
HuffmanTables scan_huffman_tables(const jpeg_decompress_struct& codec);  // of a baseline scan
HuffmanTables standard_huffman_tables();                                 // T.81, annex K, as libjpeg has them

// The scan's entropy-coded bytes; empty where the tables have no code for some value.
std::vector<std::byte> write_huffman_scan(const JpegBlocks& jpeg, const HuffmanTables& tables,
                                          unsigned restart_interval);

}  // namespace stoker
