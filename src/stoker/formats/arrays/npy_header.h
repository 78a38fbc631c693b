// The header of a .npy file: the element type as NumPy writes it, the order and the shape.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "stoker/base/tensor_view.h"

namespace stoker {

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
