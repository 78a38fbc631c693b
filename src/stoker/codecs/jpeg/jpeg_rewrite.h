// Writes a new baseline JPEG with given coefficients, for dct records whose original scan cannot be reproduced, such as
// those of progressive files. Internal to codecs/.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "stoker/codecs/jpeg/jpeg_blocks.h"

namespace stoker {

// `head`: the original file up to its first scan, which `codec` has opened; its application and comment segments are
// copied. Returns nothing if a baseline file cannot encode a value.
std::vector<std::byte> rewrite_jpeg(const jpeg_decompress_struct& codec, const JpegBlocks& jpeg,
                                    std::span<const std::byte> head);

}  // namespace stoker
