// The figures of a model on data: loss and accuracy, exact over all samples.
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
#include "stoker/train/run/checkpoint.h"

namespace stoker {

struct Evaluation {
    double loss = 0;
    double accuracy = 0;  // share in [0, 1]
    std::optional<double> top5 =
        std::nullopt;  // share whose class is among the five likeliest; of more than five classes
    std::int64_t samples = 0;
    std::int64_t bad_samples = 0;  // of them, which others stood in for
    std::vector<std::int64_t> confusion =
        {};  // (classes, classes): samples by label, then by prediction; where asked for
};

// How far an evaluation is, over all ranks.
struct EvaluationProgress {
    std::int64_t samples = 0;  // done
    std::int64_t of = 0;
    double images_per_second = 0;
};

using OnEvaluation = std::function<void(const EvaluationProgress&)>;
using OnBadSamples = std::function<void(std::span<const BadSample>)>;

struct EvaluateOptions {
    std::function<bool()> stop = nullptr;  // asked after each batch
    // Told of samples that were replaced, and of those that went past the budget.
    OnBadSamples on_bad_samples = nullptr;
    OnEvaluation on_batch = nullptr;  // told after each batch
    bool confusion = false;           // of one process
};

// One pass over `loader` from its first batch, in inference mode; the model is back in training mode after. The figures
// are of the samples of all ranks. Empty where `stop` was true on the way.
std::optional<Evaluation> evaluate(Model& model, Loader& loader, const at::Device& device,
                                   const EvaluateOptions& options = {}, const Group& group = Group());

// The recipe's model with these weights on its validation data. Training data is opened only where the
// validation data is a part of it; the confusion matrix of up to 1000 classes is counted. `classes`: those that the
// model was trained on; empty: not known. Throws InvalidArgument where the data has others.
Evaluation evaluate_weights(const Recipe& recipe, const ModelFile& weights,
                            const std::vector<std::string>& classes = {}, const OnEvaluation& on_batch = nullptr);

}  // namespace stoker
