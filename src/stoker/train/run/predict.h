// What a model says of samples, in the order of the data, whether they have labels or not.
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
    std::string error;                 // why the sample is bad, or that the model's outputs are
    bool other_size = false;           // it is bad, and for its size alone
};

// Nothing but why it is bad.
Prediction prediction_of(const BadSample& sample);

// One pass over `loader`, which may replace bad samples: what the model says of their replacements is left out.
void predict(Model& model, Loader& loader, const at::Device& device,
             const std::function<void(const std::vector<Prediction>&)>& on_batch);

}  // namespace stoker
