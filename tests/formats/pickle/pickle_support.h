// Writes pickles opcode by opcode, also such as Python would never write.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "formats/arrays/npy_support.h"

namespace stoker::testing {

inline std::string pickled_text(std::string_view text) {
    return "X" + little_endian(text.size(), 4) + std::string(text);
}

inline std::string pickled_bytes(std::string_view bytes) {
    return "B" + little_endian(bytes.size(), 4) + std::string(bytes);
}

inline std::string pickled_int(std::int64_t value) {
    return std::string("\x8a\x08") + little_endian(static_cast<std::uint64_t>(value), 8);
}

inline std::string pickled_tuple(const std::vector<std::string>& entries) {
    std::string all = "(";
    for (const std::string& entry : entries) {
        all += entry;
    }
    return all + "t";
}

inline std::string pickled_shape(const std::vector<std::int64_t>& shape) {
    std::vector<std::string> sides;
    for (const std::int64_t side : shape) {
        sides.push_back(pickled_int(side));
    }
    return pickled_tuple(sides);
}

// Keys and values alternate.
inline std::string pickled_dict(const std::vector<std::string>& entries) {
    std::string all = "}(";
    for (const std::string& entry : entries) {
        all += entry;
    }
    return all + "u";
}

inline std::string pickled_name(std::string_view module, std::string_view name) {
    return "c" + std::string(module) + "\n" + std::string(name) + "\n";
}

// `order` is "<", ">" or "|".
inline std::string pickled_dtype(std::string_view code, std::string_view order) {
    return pickled_name("numpy", "dtype") + pickled_tuple({pickled_text(code), "\x89", "\x88"}) + "R" +
           pickled_tuple({"K\3", pickled_text(order), "N", "N", "N", "J\xff\xff\xff\xff", "J\xff\xff\xff\xff",
                          std::string("K\0", 2)}) +
           "b";
}

// As NumPy 1 writes it with protocols up to 4.
inline std::string pickled_array(const std::string& dtype, const std::vector<std::int64_t>& shape,
                                 std::string_view content, bool fortran = false) {
    return pickled_name("numpy.core.multiarray", "_reconstruct") +
           pickled_tuple({pickled_name("numpy", "ndarray"), pickled_shape({0}), pickled_bytes("b")}) + "R" +
           pickled_tuple({"K\1", pickled_shape(shape), dtype, fortran ? "\x88" : "\x89", pickled_bytes(content)}) + "b";
}

// As NumPy 2 writes it with protocol 5.
inline std::string pickled_buffer(const std::string& dtype, const std::vector<std::int64_t>& shape,
                                  std::string_view content, bool fortran = false) {
    return pickled_name("numpy._core.numeric", "_frombuffer") +
           pickled_tuple({"\x96" + little_endian(content.size(), 8) + std::string(content), dtype, pickled_shape(shape),
                          pickled_text(fortran ? "F" : "C")}) +
           "R";
}

inline std::string pickled_tensor(std::string_view storage, std::string_view key, std::int64_t offset,
                                  const std::vector<std::int64_t>& shape, const std::vector<std::int64_t>& strides) {
    const std::string reference = pickled_tuple({pickled_text("storage"), pickled_name("torch", storage),
                                                 pickled_text(key), pickled_text("cpu"), pickled_int(100)}) +
                                  "Q";
    return pickled_name("torch._utils", "_rebuild_tensor_v2") +
           pickled_tuple({reference, pickled_int(offset), pickled_shape(shape), pickled_shape(strides), "\x89",
                          pickled_name("collections", "OrderedDict") + ")R"}) +
           "R";
}

}  // namespace stoker::testing
