// What lies in a .pt2 file beside its graphs: a description of the model, its first weights. python/stoker/export.py
// writes both.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stoker/base/tensor_view.h"
#include "stoker/models/model.h"

namespace stoker {

struct ExportedFile {
    bool compiled = false;
    std::string device;  // "cpu" or "cuda": the graphs' own
    Shape input;         // (C, H, W)
    std::int64_t smallest_batch = 1;
    std::vector<NamedTensor> parameters;
    std::vector<bool> trained;  // of each parameter; the others have no gradient
    std::vector<NamedTensor> buffers;
};

// Throws IoError, and DataError for a damaged file or one that export_training did not write.
ExportedFile read_exported_file(const std::string& path);

}  // namespace stoker
