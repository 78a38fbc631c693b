// A step as separate operations: forward and backward pass of each micro-batch, clipping, update. Alone, or with other
// ranks, as its passes say.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "stoker/train/step/forward_snapshot.h"
#include "stoker/train/step/passes.h"
#include "stoker/train/step/step_context.h"

namespace stoker {

class EagerStep : public Step {
  public:
    // `why` is the reason that Step::compiled gives.
    EagerStep(const std::shared_ptr<StepContext>& context, std::unique_ptr<Passes> passes, std::string why);

    void train(const DeviceBatch& batch, double lr, std::int64_t samples) override;
    std::string compiled() const override { return "eager: " + why_; }
    std::optional<double> take_idle_share() override { return passes_->take_idle_share(); }

    // For tests: called before each forward pass, which may throw.
    std::function<void(std::int64_t samples)> before_forward;

  protected:
    // Everything before the update. Returns whether gradients overflowed (Scaler::unscale); empty if the update is
    // done already. With several ranks memory that runs out ends the run.
    virtual std::optional<at::Tensor> attempt(const DeviceBatch& batch, std::int64_t samples);
    // Clipped gradients of the mean loss over the `all` samples of the ranks' batch; that loss goes into `mean`.
    at::Tensor gradients(const DeviceBatch& batch, std::int64_t all, const at::Tensor& mean);
    // Allocates nothing, so that memory does not run out between two weights.
    void apply(const at::Tensor& found_inf);

  private:
    at::Tensor forward(DeviceBatch batch, const at::Tensor& input);
    void backward(const at::Tensor& output, at::Tensor gradient, double share, bool last, const at::Tensor& mean);
    at::Tensor clip();

    std::unique_ptr<Passes> passes_;
    std::string why_;
    at::ScalarType input_type_;  // of images that come as bytes
};

// The step of one process: begins again with more micro-batches if memory runs out. Until the update changes weights
// that is possible: gradients, buffers and random generators are restored.
class RetryingStep : public EagerStep {
  public:
    RetryingStep(const std::shared_ptr<StepContext>& context, std::string why);

    // The whole step, for a graph: without a second try, or an account of its phases. True where it was a fused one.
    bool record(const DeviceBatch& batch, const at::Tensor& mean);

    // Called where memory runs out; true if it has freed some.
    std::function<bool()> free_memory = [] { return false; };

  protected:
    std::optional<at::Tensor> attempt(const DeviceBatch& batch, std::int64_t samples) override;
    // Makes the whole step in a few kernels, if it can: true, with the loss in `mean`. It throws only before
    // it changes a weight.
    virtual bool run_fused(const DeviceBatch& /*batch*/, const at::Tensor& /*mean*/) { return false; }

  private:
    void undo_forward(bool drop_gradients, bool started) noexcept;

    ForwardSnapshot start_;  // of the step
};

}  // namespace stoker
