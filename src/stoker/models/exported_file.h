// Reads the parts of a .pt2 file that are not graphs: a description of the model and its initial weights, both written
// by python/stoker/export.py.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stoker/base/tensor_view.h"
#include "stoker/models/model.h"

namespace stoker {

struct ExportedFile {
    bool compiled = false;
    std::string device;  // "cpu" or "cuda", which the graphs were exported for
    Shape input;         // (C, H, W)
    std::int64_t smallest_batch = 1;
    std::vector<NamedTensor> parameters;
    std::vector<bool> trained;  // for each parameter: whether the training graph returns its gradient
    std::vector<NamedTensor> buffers;
};

// Throws IoError, DataError for a damaged file or one that export_training did not write, and Unsupported for another
// version of the format.
ExportedFile read_exported_file(const std::string& path);

}  // namespace stoker
