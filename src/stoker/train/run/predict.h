// Predictions for samples in the order of the data, with or without labels.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "stoker/models/model.h"
#include "stoker/pipeline/loader.h"

namespace stoker {

struct Prediction {
    std::string key;
    std::vector<float> probabilities;  // of the classes; empty where there is an error
    std::string error;                 // why the sample is bad, or that the model's outputs are not finite
    bool other_size = false;           // the sample is bad only because of its size
};

// The prediction for a bad sample: its key and error.
Prediction prediction_of(const BadSample& sample);

// One pass over `loader`. Predictions for samples that replace bad ones are left out.
void predict(Model& model, Loader& loader, const at::Device& device,
             const std::function<void(const std::vector<Prediction>&)>& on_batch);

}  // namespace stoker
