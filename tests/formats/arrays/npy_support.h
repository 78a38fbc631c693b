// Makes .npy files as NumPy writes them: magic, version, a dict padded with spaces to a multiple of 64, elements.
#pragma once

#include <cstdint>
#include <fmt/format.h>
#include <string>
#include <string_view>

namespace stoker::testing {

inline std::string little_endian(std::uint64_t value, int bytes) {
    std::string text;
    for (int i = 0; i < bytes; ++i) {
        text += static_cast<char>(value >> 8 * i & 0xFF);
    }
    return text;
}

// A file with the header `dict`, which need not be valid.
inline std::string npy_of_dict(std::string dict, std::string_view elements, int major = 1) {
    const std::size_t head = major == 1 ? 10 : 12;
    dict += std::string(63 - (head + dict.size()) % 64, ' ') + '\n';
    return "\x93NUMPY" + std::string{static_cast<char>(major), '\0'} + little_endian(dict.size(), major == 1 ? 2 : 4) +
           dict + std::string(elements);
}

// `shape` as Python writes it, "(3, 4)".
inline std::string npy(std::string_view descr, std::string_view shape, std::string_view elements, bool fortran = false,
                       int major = 1) {
    return npy_of_dict(
        fmt::format("{{'descr': '{}', 'fortran_order': {}, 'shape': {}, }}", descr, fortran ? "True" : "False", shape),
        elements, major);
}

}  // namespace stoker::testing
