// The layers of an mlp with the optimiser's state, as fused/'s steps take them.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "stoker/bridge/device.h"
#include "stoker/fused/fused_mlp.h"
#include "stoker/models/model.h"
#include "stoker/train/step/optimizer.h"

namespace stoker {

// A parameter and its state in the optimiser; undefined where the optimiser has none.
struct FusedParameter {
    at::Tensor value;
    at::Tensor first = {};   // exp_avg or momentum_buffer
    at::Tensor second = {};  // exp_avg_sq
    at::Tensor steps = {};   // scalar
};

struct FusedLayerTensors {
    FusedParameter weight;  // (out, in)
    FusedParameter bias;    // (out)

    FusedLayer memory() const;
};

struct FusedLayers {
    std::vector<FusedLayerTensors> layers;
    FusedMlpOptions options;
};

// Empty where model, optimiser or loss have no fused step.
std::optional<FusedLayers> fused_layers(const Model& model, const Optimizer& optimizer, const LossOptions& loss);

// The batch's images (N, inputs), float32 and contiguous. Throws InvalidArgument for another number of inputs.
at::Tensor fused_input(const DeviceBatch& batch, int inputs);

}  // namespace stoker
