// Reads .npy files, NumPy's format for one array: a magic number, a version, a Python dict as text, the elements.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
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

// ---- The header: the element type as NumPy writes it, the order and the shape ----

struct NpyHeader {
    std::string_view descr;  // "<f4": points into the bytes
    bool fortran = false;
    Shape shape;
    std::size_t data = 0;  // offset of the elements
};

// Throws DataError for damaged bytes, Unsupported for other versions than 1.0 to 3.0 and for records of several fields.
NpyHeader read_npy_header(std::span<const std::byte> bytes);

// Text of such a file for messages: quoted, at most 40 characters, without control characters.
std::string shown_npy(std::string_view text);

// Throws DataError.
[[noreturn]] void refuse_npy(std::size_t offset, std::string expected, std::string got);

}  // namespace stoker
