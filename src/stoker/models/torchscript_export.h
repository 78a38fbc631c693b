// Models as TorchScript files, which Python loads with torch.jit.load and other programs run without Stoker.
#pragma once

#include <string>

#include "stoker/base/tensor_view.h"
#include "stoker/models/model.h"

namespace stoker {

// Writes the model's evaluation pass over images (N, C, H, W), N free, with its parameters and buffers under their
// names. `image` is (C, H, W). A TorchScriptModel is saved as it came, with new weights. Throws IoError, and
// Unsupported for a model whose pass cannot be traced, an exported one among them. `about` goes with it as the extra
// file stoker.json.
void save_torchscript(Model& model, const Shape& image, const std::string& path, const std::string& about = "{}");

}  // namespace stoker
