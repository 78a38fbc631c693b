// One optimiser step: forward, cross entropy, backward, update. Its parts compose: autocast, loss scaling,
// micro-batches, clipping, an average of the weights. Losses stay on the device until somebody asks, so that nothing
// in the step waits.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "stoker/bridge/device.h"
#include "stoker/dist/gradient_reducer.h"
#include "stoker/dist/group.h"
#include "stoker/models/model.h"
#include "stoker/trace/account.h"
#include "stoker/train/step/autocast.h"
#include "stoker/train/step/ema.h"
#include "stoker/train/step/forward_state.h"
#include "stoker/train/step/fused_step.h"
#include "stoker/train/step/optimizer.h"
#include "stoker/train/step/scaler.h"
#include "stoker/train/step/step_graph.h"

namespace stoker {

struct StepOptions {
    Precision precision = {};
    std::int64_t accumulate = 1;  // micro-batches; never more than samples
    double clip_norm = 0;         // 0: not
    double clip_value = 0;
    LossOptions loss = {};
    double ema = 0;             // decay; 0: none
    ScalerOptions scaler = {};  // where the precision scales losses
    bool compile = true;        // runs as one piece what can be
    bool soft_targets = false;  // labels are shares of the classes
};

class Step {
  public:
    // With a `group` of several ranks all of them run each step together; it must outlive the step.
    Step(Model& model, Optimizer& optimizer, Account& account, const at::Device& device,
         const StepOptions& options = {}, const Group* group = nullptr);

    // Trains on one batch with learning rate `lr`. Where memory is too small, the batch is split into twice as many
    // micro-batches, and those after it too, just as if `accumulate` had said so: buffers and random generators are put
    // back to where the step began. Gradients stay the same, but for what looks at a whole batch, such as batch norm,
    // whose statistics are then of micro-batches. Throws what LibTorch threw (is_out_of_memory) where a single sample
    // is too much; with several ranks, which would no longer agree, an Error at once. `samples` is the size of the
    // batch over all ranks, of which `batch` is this one's part, and may be empty.
    void run(const DeviceBatch& batch, double lr, std::int64_t samples);
    void run(const DeviceBatch& batch, double lr) { run(batch, lr, batch.label.size(0)); }

    // The mean loss of each `run` since the last call, in order; with several ranks, what this rank's samples add to
    // it. Waits for the device.
    std::vector<double> take_losses();

    // A checkpoint's state of the scaler and averaged weights. Throws InvalidArgument where they are of another kind of
    // step.
    void load(const std::vector<NamedTensor>& scaler, const std::vector<NamedTensor>& ema);

    std::int64_t accumulate() const { return options_.accumulate; }
    // What a run that goes on found out about its memory before.
    void accumulate_at_least(std::int64_t parts);
    bool fused() const { return fused_.has_value(); }
    // How steps run: "fused", "graph" or "eager: " and why. A graph is made in an early step.
    std::string compiled() const;
    // Has `graph` record the step. The constructor does that itself on CUDA devices; another is for tests.
    void capture_with(std::unique_ptr<DeviceGraph> graph);
    Ema* ema() { return ema_ ? &*ema_ : nullptr; }
    const Scaler* scaler() const { return scaler_ ? &*scaler_ : nullptr; }

    // Called before each forward pass; what it throws is as if the pass had thrown it. For tests.
    std::function<void(std::int64_t samples)> before_forward;

  private:
    bool as_graph(const DeviceBatch& batch);
    void by_parts(const DeviceBatch& batch, std::int64_t samples);
    void gradients(const DeviceBatch& batch, std::int64_t all, const at::Tensor& mean);
    void micro_batch(const DeviceBatch& batch, double share, bool last, const at::Tensor& mean);
    void no_gradients();
    void update();
    void fetch_losses();
    std::vector<at::Tensor> memory() const;

    Model& model_;
    Optimizer& optimizer_;
    Account& account_;
    at::Device device_;
    StepOptions options_;
    const Group* group_;
    std::optional<Scaler> scaler_;
    std::optional<Ema> ema_;
    std::optional<FusedStep> fused_;
    std::optional<GradientReducer> reducer_;  // where there are several ranks
    int ranks_ = 1;
    ForwardState start_;  // of the step
    std::optional<StepGraph> graph_;
    std::string why_eager_;
    at::Tensor losses_;            // (kOnDevice) float32 on the device
    std::int64_t on_device_ = 0;   // of them in use
    std::vector<double> fetched_;  // those before
};

}  // namespace stoker
