// Baseline Huffman coding of one interleaved scan (ITU-T T.81, annex F). The bytes equal those of any encoder with the
// same tables and restart interval. Internal to codecs/.
#pragma once

#include <cstddef>
#include <vector>

#include "stoker/codecs/jpeg/jpeg_blocks.h"

namespace stoker {

// True if the first scan of an opened JPEG is baseline and contains all components.
bool is_baseline_scan(const jpeg_decompress_struct& codec);

// One pair of tables per component.
struct HuffmanTables {
    JHUFF_TBL dc[3];
    JHUFF_TBL ac[3];
};
HuffmanTables scan_huffman_tables(const jpeg_decompress_struct& codec);  // of a baseline scan
HuffmanTables standard_huffman_tables();                                 // T.81, annex K, from libjpeg

// Returns the entropy-coded bytes; empty if the tables have no code for a value.
std::vector<std::byte> write_huffman_scan(const JpegBlocks& jpeg, const HuffmanTables& tables,
                                          unsigned restart_interval);

}  // namespace stoker
