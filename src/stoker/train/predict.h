// What a model says of samples, in the order of the data, whether they have labels or not.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "stoker/models/model.h"
#include "stoker/pipeline/loader.h"
#include "stoker/recipe/recipe.h"

namespace stoker {

struct Prediction {
    std::string key;
    std::vector<float> probabilities;  // of the classes; empty where there is an error
    std::string error;                 // why the sample is bad, or that the model's outputs are
};

// For data in which not one sample can be read, so that no loader is made: why each cannot. Empty where one can.
std::vector<Prediction> unreadable(const Source& source, const DataRecipe& recipe);

// One pass over `loader`, which may replace bad samples: what the model says of their replacements is left out.
void predict(Model& model, Loader& loader, const at::Device& device,
             const std::function<void(const std::vector<Prediction>&)>& on_batch);

}  // namespace stoker
