// The passes of a step through this rank's part of a model, micro-batch by micro-batch: a whole model, alone or with
// ranks that have other samples; one of several stages; or shards.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>

#include "stoker/models/model.h"
#include "stoker/train/step/pipeline_step.h"

namespace stoker {

struct StepContext;
struct StepRanks;

class Passes {
  public:
    Passes() = default;
    Passes(const Passes&) = delete;
    Passes& operator=(const Passes&) = delete;
    virtual ~Passes() = default;

    // Makes the passes of `samples` samples in `parts` micro-batches, in this rank's order.
    virtual void run(std::int64_t samples, std::int64_t parts, const MicroBatchPasses& passes);
    // True where the ranks make each pass together, some without samples.
    virtual bool together() const { return false; }
    // The loss of a micro-batch, a scalar, the mean over its samples; of a stage before the last its output for
    // `input`. Undefined if this rank is without samples and computes nothing.
    virtual at::Tensor forward(const DeviceBatch& batch, const at::Tensor& input) = 0;
    // Adds the gradients of `output`, which `forward` returned. `last`: this is the last micro-batch of the step.
    virtual void backward(const at::Tensor& output, const at::Tensor& gradient, bool last) = 0;
    // Instead of both, for a step in which this rank is without samples and passes.
    virtual void without_samples() {}
    // Sums over the ranks that have other layers or shards; null where there are none.
    virtual SumOverRanks sum_of_parts() { return nullptr; }
    // Step::take_idle_share.
    virtual std::optional<double> take_idle_share() { return std::nullopt; }
};

// Both must outlive the passes. All ranks must call it.
std::unique_ptr<Passes> make_passes(StepContext& context, const StepRanks& ranks);

}  // namespace stoker
