// Predictions for samples in the order of the data, with or without targets.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "stoker/dist/group.h"
#include "stoker/models/model.h"
#include "stoker/pipeline/loader.h"
#include "stoker/train/step/autocast.h"
#include "stoker/train/task/task.h"

namespace stoker {

// Values and mask are empty if there is an error.
struct Prediction {
    std::string key;
    // Classification: the probabilities of the classes, whose sum is 1; multilabel: the probability of each label;
    // regression: the values.
    std::vector<float> values = {};
    // Segmentation: a grey PNG of the likeliest class of each pixel, as the value that masks store for it. It has the
    // image's size if the loader gives kImageSizeField, and otherwise that of the model's outputs.
    std::vector<std::byte> mask = {};
    std::string error = {};   // why the sample is bad, or that the model's outputs are not finite
    bool other_size = false;  // the sample is bad only because of its size
};

// The prediction for a bad sample: its key and error.
Prediction prediction_of(const BadSample& sample);

// Throws Unsupported for a task whose outputs do not predict a sample: language and custom, and segmentation
// with more than 256 classes.
void require_predictable(const Task& task);

// One pass over `loader`, in the precision of training. Predictions for samples that replace bad ones are left out. The
// ranks of `group` share the batches of a loader of theirs; `on_batch` then gets whole batches on rank 0, and is not
// called on the others.
void predict(Model& model, Loader& loader, const at::Device& device,
             const std::function<void(const std::vector<Prediction>&)>& on_batch, const Task& task = {},
             const Precision& precision = {}, const Group& group = Group());

}  // namespace stoker
