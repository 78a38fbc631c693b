// A step as separate operations: forward and backward pass of each micro-batch, clipping, update.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "stoker/train/step/forward_snapshot.h"
#include "stoker/train/step/fused_device_step.h"
#include "stoker/train/step/step.h"

namespace stoker {

// On a whole model; make_rank_step has further kinds.
class EagerStep : public Step {
  public:
    // `why` is the reason that Step::compiled gives.
    EagerStep(const StepParts& parts, std::string why);

    void accumulate_at_least(std::int64_t parts, std::int64_t samples) override;
    std::string compiled() const override { return "eager: " + why_; }

    // For tests: called before each forward pass, which may throw.
    std::function<void(std::int64_t samples)> before_forward;

  protected:
    void train(const DeviceBatch& batch, double lr, std::int64_t samples) override;
    // Everything before the update. Returns what `gradients` does, or nothing if the update is done already.
    virtual std::optional<at::Tensor> attempt(const DeviceBatch& batch, std::int64_t samples);
    // Makes clipped gradients of the mean loss over the `all` samples of all ranks' batch; that loss goes into `mean`.
    // Returns whether they overflowed (Scaler::unscale); undefined without a scaler.
    at::Tensor gradients(const DeviceBatch& batch, std::int64_t all, const at::Tensor& mean);
    // The update. Allocates nothing, so that memory does not run out between two weights.
    void apply(const at::Tensor& found_inf);

    // Both passes of so many micro-batches, in this rank's order.
    virtual void run_passes(std::int64_t samples, std::int64_t parts, const PipelineStep::Passes& passes);
    // The loss of a micro-batch; of a stage before the last its output for `input`. Undefined if this rank is without
    // samples and computes nothing.
    virtual at::Tensor pass_forward(const DeviceBatch& batch, const at::Tensor& /*input*/) {
        // The mean over no samples is not a number; a sum has gradients of zeros.
        return batch.size() == 0 ? model_.outputs(batch).sum() : model_.loss(batch, options_.loss);
    }
    // Adds the gradients of `output`, which the pass above returned. `last`: of the step's micro-batches.
    virtual void pass_backward(const at::Tensor& output, const at::Tensor& gradient, bool /*last*/) {
        model_.backward(output, gradient);
    }
    // Replaces all passes of a step if this rank is without samples.
    virtual void without_samples() {}
    // Sums over the ranks that have other parameters, or other shards of them; null if each has all.
    virtual SumOverRanks sum_of_parts() { return nullptr; }

    std::int64_t largest_ = 0;  // samples of the largest batch so far

  private:
    at::Tensor forward(DeviceBatch batch, const at::Tensor& input);
    void backward(const at::Tensor& output, at::Tensor gradient, double share, bool last, const at::Tensor& mean);
    at::Tensor clip();

    std::string why_;
    at::ScalarType input_type_;        // of images that come as bytes
    int data_size_;                    // ranks with other samples
    std::vector<at::Tensor> buffers_;  // that these do not compute alike
    bool short_of_memory_ = false;     // and so options_.accumulate is larger than asked for
};

// The step of one process, which begins again with more micro-batches if memory runs out: until the update changes
// weights, gradients, buffers and random generators can be restored.
class RetryingStep : public EagerStep {
  public:
    // `kernels`: of a small mlp on a GPU, which replace the passes where they are faster.
    RetryingStep(const StepParts& parts, std::string why, std::optional<FusedDeviceStep> kernels)
        : EagerStep(parts, std::move(why)), kernels_(std::move(kernels)), start_(model_, device_) {}

  protected:
    std::optional<at::Tensor> attempt(const DeviceBatch& batch, std::int64_t samples) override;
    // The whole step in a few kernels, with the loss in `mean`; false if they do not take it. Throws only before it
    // changes a weight.
    bool run_kernels(const DeviceBatch& batch, const at::Tensor& mean);

  private:
    void undo_forward(bool drop_gradients, bool started) noexcept;

    std::optional<FusedDeviceStep> kernels_;
    ForwardSnapshot start_;  // of the step
};

// The eager step of a rank: data-parallel, sharded, a stage of a pipeline, or with slices of the model alone.
std::unique_ptr<Step> make_rank_step(const StepParts& parts);

// The eager step of one process on several devices (StepParts::replicas).
std::unique_ptr<Step> make_replicated_step(const StepParts& parts);

}  // namespace stoker
