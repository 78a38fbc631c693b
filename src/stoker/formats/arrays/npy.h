// Reads .npy files, NumPy's format for one array: a magic number, a version, a Python dict as text, the elements.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "stoker/formats/array.h"

namespace stoker {

// A view of the array in the bytes of a .npy file, whose size must match. Versions 1 to 3, C and Fortran order, both
// byte orders; boolean, integer and float types. Throws DataError for damaged bytes and Unsupported for other types
// (objects would be pickles).
ArrayView parse_npy(std::span<const std::byte> bytes);

// The same for a one-dimensional array of text: str ('<U7', returned as UTF-8) or bytes ('|S7'), each without its zero
// padding.
std::vector<std::string> parse_npy_text(std::span<const std::byte> bytes);

}  // namespace stoker
