// NumPy's files of one array: a magic number, a version, a header that is a Python dict in text, the elements.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "stoker/formats/array.h"

namespace stoker {

// The array in the bytes of a .npy file, checked against their number; a view into them. Versions 1 to 3, C and
// Fortran order, both byte orders; boolean, integer and float types. Throws DataError for damaged bytes and
// Unsupported for other types (objects would be pickles).
ArrayView parse_npy(std::span<const std::byte> bytes);

// The same for an array of text in one dimension: str ('<U7', given back as UTF-8) or bytes ('|S7'), each without the
// zeros that fill it up.
std::vector<std::string> parse_npy_text(std::span<const std::byte> bytes);

}  // namespace stoker
