// A new JPEG around given coefficients: for records of files whose own scan cannot be made again (progressive
// ones, above all). Internal to codecs/.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "stoker/codecs/jpeg/jpeg_blocks.h"

namespace stoker {

// Baseline, with the application and comment segments of `head`, a JPEG's bytes up to its first scan, which `codec` has
// opened. Empty where a value has no code in a baseline file.
std::vector<std::byte> rewrite_jpeg(const jpeg_decompress_struct& codec, const JpegBlocks& jpeg,
                                    std::span<const std::byte> head);

}  // namespace stoker
