// Saves models as TorchScript files, which Python loads with torch.jit.load and other programs run without Stoker.
#pragma once

#include <string>

#include "stoker/base/tensor_view.h"
#include "stoker/models/model.h"

namespace stoker {

// Writes the forward pass in evaluation mode for images (N, C, H, W) with any N, and the parameters and buffers under
// their names. `image` is (C, H, W). A TorchScriptModel saves its file's graph with its present weights. `metadata` is
// stored as the extra file stoker.json. Throws IoError, InvalidArgument for weights that are not finite, and
// Unsupported for a model that cannot be traced, such as an exported one.
void save_torchscript(Model& model, const Shape& image, const std::string& path, const std::string& metadata = "{}");

}  // namespace stoker
