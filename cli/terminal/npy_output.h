// Writes NumPy's .npy files.
#pragma once

#include <filesystem>

#include "stoker/base/tensor_view.h"

namespace stoker::cli {

// Writes a uint8 or float32 array in C order, format version 1.0. Throws InvalidArgument for other types and IoError if
// the file cannot be written.
void write_npy(const std::filesystem::path& path, const TensorView& tensor);

}  // namespace stoker::cli
