// The markers of a JPEG 2000 codestream, up to its end.
#pragma once

#include <cstddef>
#include <span>

#include "stoker/codecs/j2k_header.h"

namespace stoker {

// `at`: the codestream's first byte in a file of `file_size` bytes, for errors. Throws what read_j2k_header throws.
J2kHeader read_j2k_codestream(std::span<const std::byte> bytes, std::size_t at, std::size_t file_size);

}  // namespace stoker
