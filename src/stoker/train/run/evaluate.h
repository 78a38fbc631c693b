// Loss and metrics of a model on data, exact over all samples.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "stoker/dist/group.h"
#include "stoker/models/model.h"
#include "stoker/pipeline/loader.h"
#include "stoker/records/account.h"
#include "stoker/train/run/checkpoint.h"
#include "stoker/train/step/autocast.h"
#include "stoker/train/step/fully_sharded_model.h"
#include "stoker/train/step/stage_links.h"
#include "stoker/train/task/scores.h"

namespace stoker {

struct Evaluation {
    double loss = 0;  // mean over the samples
    // For classification, shares in [0, 1]; `metrics` has them as well.
    std::optional<double> accuracy = std::nullopt;
    std::optional<double> top5 = std::nullopt;  // share in the five likeliest classes, of more than five
    std::vector<Metric> metrics = {};           // of the task, the main one first
    std::int64_t samples = 0;
    std::int64_t bad_samples = 0;  // of them, replaced by others
    // (classes, classes), samples by label, then by prediction; with EvaluateOptions::confusion
    std::vector<std::int64_t> confusion = {};
    StepRecord account = {};  // of this rank's thread, without the wait for other ranks
    StageTimes workers = {};  // of this rank's loader
};

// The progress of an evaluation, over all ranks.
struct EvaluationProgress {
    std::int64_t samples = 0;  // done
    std::int64_t of = 0;
    double images_per_second = 0;
};

using OnEvaluation = std::function<void(const EvaluationProgress&)>;

struct EvaluateOptions {
    std::function<bool()> stop = nullptr;   // called after each batch; true ends the evaluation
    OnBadSamples on_bad_samples = nullptr;  // of Loader::next
    OnEvaluation on_batch = nullptr;        // called after each batch
    bool confusion = false;                 // also Evaluation::confusion, of a classification
    Precision precision = {};               // of training
    StageLinks* stage = nullptr;            // if the model is one of several stages; the last has the outputs
    FullyShardedModel* full = nullptr;      // if the ranks have shards of its parameters
    // Called where a batch does not fit into memory; true if it has freed some, for a second try.
    std::function<bool()> free_memory = nullptr;
};

// The model's outputs for a batch on `device`, whose images may still be bytes: computed in the precision of training,
// and then float32. `full`: as in EvaluateOptions.
at::Tensor evaluation_outputs(Model& model, DeviceBatch& batch, const Precision& precision, const at::Device& device,
                              FullyShardedModel* full = nullptr);

// One pass over `loader` from its first batch, in inference mode; then the model is in training mode again. The result
// covers the samples of all ranks of `group`, with stages of all copies and stages (Mesh::figures). Empty where `stop`
// returned true.
std::optional<Evaluation> evaluate(Model& model, Loader& loader, const Task& task, const at::Device& device,
                                   const EvaluateOptions& options = {}, const Group& group = Group());

// Evaluates the recipe's model with these weights on the recipe's validation data. Training data is opened only where
// the validation data is a part of it. Up to 1000 classes have a confusion matrix. `classes`: those that the model was
// trained on, which the data's are matched with by name; empty: not known. Throws InvalidArgument where the data has
// others. `on_data` is called with the validation data before the evaluation. The ranks of `group` share the samples,
// and all get the result; if they have other data or weights, all throw InvalidArgument.
Evaluation evaluate_weights(const Recipe& recipe, const ModelFile& weights,
                            const std::vector<std::string>& classes = {}, const OnEvaluation& on_batch = nullptr,
                            const std::function<void(const Dataset&)>& on_data = nullptr, const Group& group = Group());

}  // namespace stoker
