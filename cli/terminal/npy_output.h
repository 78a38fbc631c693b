// Writes NumPy's .npy files.
#pragma once

#include <filesystem>

#include "stoker/base/tensor_view.h"

namespace stoker::cli {

// Version 1.0 of the format, as numpy.lib.format describes it: magic, header length, a Python literal
// padded to 64 bytes, then the elements, row-major. Throws InvalidArgument for bfloat16, which NumPy
// does not know, and IoError where the file cannot be written.
void write_npy(const std::filesystem::path& path, const TensorView& tensor);

}  // namespace stoker::cli
