// The header's text and the bytes behind it, written at once.
#include "cli/terminal/npy_output.h"

#include <array>
#include <bit>
#include <fmt/format.h>
#include <string>

#include "stoker/base/error.h"
#include "stoker/base/file.h"

namespace stoker::cli {
namespace {

static_assert(std::endian::native == std::endian::little, "the types below say little-endian");

const char* numpy_type(DType dtype) {
    switch (dtype) {
        case DType::uint8:
            return "|u1";
        case DType::int32:
            return "<i4";
        case DType::int64:
            return "<i8";
        case DType::float16:
            return "<f2";
        case DType::float32:
            return "<f4";
        case DType::float64:
            return "<f8";
        case DType::bfloat16:
            break;
    }
    throw InvalidArgument({.where = "npy",
                           .expected = "an element type of NumPy",
                           .got = std::string(dtype_name(dtype)),
                           .hint = "convert to float32 first"});
}

}  // namespace

void write_npy(const std::filesystem::path& path, const TensorView& tensor) {
    std::string shape;
    for (const std::int64_t size : tensor.shape) {
        shape += fmt::format("{}, ", size);
    }
    std::string text =
        fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", numpy_type(tensor.dtype), shape);
    constexpr std::size_t kBefore = 10;  // magic, version and header length
    text.append(63 - (kBefore + text.size()) % 64, ' ');
    text += '\n';
    std::string header = "\x93NUMPY";
    header += {'\1', '\0', static_cast<char>(text.size() & 0xFF), static_cast<char>(text.size() >> 8)};
    header += text;
    const std::array<std::span<const std::byte>, 2> pieces = {as_bytes(header),
                                                              std::span<const std::byte>(tensor.data, tensor.bytes())};
    write_file(path, pieces);
}

}  // namespace stoker::cli
