// Writes NumPy's .npy files.
#pragma once

#include <bit>
#include <filesystem>
#include <span>
#include <string>

#include "stoker/base/file.h"
#include "stoker/base/tensor_view.h"
#include "stoker/formats/arrays/npz_writer.h"

namespace stoker::cli {

static_assert(std::endian::native == std::endian::little, "\"<f4\" is little-endian");

// Writes a uint8 or float32 array in C order, format version 1.0. Throws IoError if the file cannot be written.
inline void write_npy(const std::filesystem::path& path, const TensorView& tensor) {
    const std::string header = npy_header(tensor.dtype == DType::uint8 ? "|u1" : "<f4", tensor.shape);
    const std::span<const std::byte> pieces[] = {as_bytes(header), {tensor.data, tensor.bytes()}};
    write_file(path, pieces);
}

}  // namespace stoker::cli
