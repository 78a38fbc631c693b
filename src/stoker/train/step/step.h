// One optimiser step: forward, loss, backward, update, with autocast, loss scaling, micro-batches, clipping
// and averaged weights. Losses stay on the device until they are read, so the host never waits within a step.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "stoker/bridge/device.h"
#include "stoker/bridge/torch_error.h"
#include "stoker/dist/gradient_reducer.h"
#include "stoker/dist/group.h"
#include "stoker/models/model.h"
#include "stoker/records/account.h"
#include "stoker/train/step/autocast.h"
#include "stoker/train/step/ema.h"
#include "stoker/train/step/forward_snapshot.h"
#include "stoker/train/step/fused_device_step.h"
#include "stoker/train/step/fused_step.h"
#include "stoker/train/step/optimizer.h"
#include "stoker/train/step/pipeline_step.h"
#include "stoker/train/step/scaler.h"
#include "stoker/train/step/step_graph.h"

namespace stoker {

struct StepOptions {
    Precision precision = {};
    std::int64_t accumulate = 1;  // micro-batches; never more than samples
    double clip_norm = 0;         // limit for the norm of all gradients together; 0: no clipping
    double clip_value = 0;        // limit for each gradient element; 0: no clipping
    LossOptions loss = {};
    double ema = 0;             // decay; 0: none
    ScalerOptions scaler = {};  // if the precision scales losses
    bool compile = true;        // use a fused step or a CUDA graph where possible
    // Lets cuDNN time its algorithms for whole batches. A search takes seconds for each shape, so smaller batches use
    // cuDNN's first choice.
    bool cudnn_benchmark = false;
    bool soft_targets = false;                                        // targets are float32 (N, classes)
    bool sync_batch_norm = false;                                     // over the ranks
    std::optional<at::ScalarType> compress_gradients = std::nullopt;  // as the ranks send them
};

class Step {
  public:
    // The ranks of `group` run each step together, and average the gradients of their samples. Those of `tensor` have
    // the same samples, and slices of the model (Model::divide). Both must outlive this object; null: one rank.
    // `stage`: which one the model is (Model::keep_blocks), if it is not a whole one. `full`: the model whose
    // parameters the ranks of `group` have divided among them; null: each has them all.
    Step(Model& model, Optimizer& optimizer, Account& account, const at::Device& device,
         const StepOptions& options = {}, const Group* group = nullptr, const Group* tensor = nullptr,
         const std::optional<StagePlan>& stage = std::nullopt, FullyShardedModel* full = nullptr);

    // Trains on one batch with learning rate `lr`. `samples` is the size of the batch over all ranks; `batch` is this
    // rank's part of it and may be empty. If memory runs out, buffers and random generators are restored, and this
    // batch and all later ones are split into twice as many micro-batches, as if `accumulate` were that large.
    // Gradients stay the same, except through layers that look at a whole batch, such as batch norm, and for losses
    // with class weights or ignored targets, which become the mean of the parts' means. Throws what LibTorch threw
    // (is_out_of_memory) if a single sample does not fit. With several ranks the others are in the middle of the step,
    // so running out of memory throws an Error at once.
    void run(const DeviceBatch& batch, double lr, std::int64_t samples);
    // The same where this rank has the whole batch. Throws InvalidArgument where ranks share it.
    void run(const DeviceBatch& batch, double lr);

    // False after a `run` that threw in the middle of its update: weights and optimiser state may belong to no step.
    // After any other failure they are as before that step.
    bool intact() const { return intact_; }

    // The mean loss of each `run` since the last call, in order; with several ranks, the part that this rank's samples
    // contribute: 0 on stages before the last. Waits for the device.
    std::vector<double> take_losses();

    // The loss of the last step, if it is in the host's memory: on a GPU, and after take_losses, it is not.
    std::optional<double> loss_on_host() const;
    // The same as a float32 scalar on the device, until the next step; before the first step 0.
    at::Tensor last_loss() const { return losses_.select(0, last_); }

    // Restores scaler and averaged weights from a checkpoint. Throws InvalidArgument where the checkpoint has one of
    // them and this step does not, or the other way round.
    void load(const std::vector<NamedTensor>& scaler, const std::vector<NamedTensor>& ema);

    // In how many micro-batches steps split a batch: StepOptions::accumulate, or more once memory ran out.
    std::int64_t accumulate() const { return options_.accumulate; }
    // Restores the number of micro-batches that memory forced before, for batches of up to `samples`.
    void accumulate_at_least(std::int64_t parts, std::int64_t samples);
    // All tensors that a step reads or writes besides its batch. Gradients are not among them: each step allocates its
    // own.
    std::vector<at::Tensor> memory() const;
    // True where forward, backward and update are one pass on the CPU (fused_step.h).
    bool fused() const { return fused_.has_value(); }
    // How steps run: "fused", "graph", "graph, fused" (an mlp's kernels), or "eager: " and the reason. A graph is
    // captured in an early step. If memory suffices for one graph only, ", which batches are copied for: " and the
    // reason follow.
    std::string compiled() const;
    // Frees the graph if there is one; later steps are eager.
    bool free_graph();
    // Returns work(). If memory runs out while there is a graph, frees the graph and calls `work` again.
    template <typename Work>
    auto beside_graph(const Work& work) {
        try {
            return work();
        } catch (const std::exception& error) {
            if (!is_out_of_memory(error) || !free_graph()) {
                throw;
            }
        }
        return work();
    }
    // Captures steps in `graphs`. The constructor calls this on CUDA devices; tests pass a fake.
    void capture_with(std::unique_ptr<DeviceGraphs> graphs);
    // Null for a whole model.
    PipelineStep* pipeline() { return pipeline_ ? &*pipeline_ : nullptr; }
    // Null without StepOptions::ema.
    Ema* ema() { return ema_ ? &*ema_ : nullptr; }
    const Ema* ema() const { return ema_ ? &*ema_ : nullptr; }
    // Null where the precision needs no scaling.
    const Scaler* scaler() const { return scaler_ ? &*scaler_ : nullptr; }

    // For tests: called before each forward pass, which may throw.
    std::function<void(std::int64_t samples)> before_forward;

  private:
    bool run_graph(const DeviceBatch& batch);
    void run_eager(const DeviceBatch& batch, std::int64_t samples);
    bool run_fused_on_device(const DeviceBatch& batch, const at::Tensor& mean);
    void gradients(const DeviceBatch& batch, std::int64_t all, const at::Tensor& mean);
    at::Tensor forward(DeviceBatch batch, const at::Tensor& input);
    at::Tensor loss(const DeviceBatch& batch, const at::Tensor& output);
    void backward(const at::Tensor& output, at::Tensor gradient, double share, bool last, const at::Tensor& mean);
    void undo_forward(bool drop_gradients, bool started) noexcept;
    void share_buffers();
    SumOverRanks sum_of_parts();
    at::Tensor clip();
    void apply(const at::Tensor& found_inf);
    void fetch_losses();

    Model& model_;
    Optimizer& optimizer_;
    Account& account_;
    at::Device device_;
    StepOptions options_;
    at::ScalarType input_type_;  // of images that come as bytes
    const Group* group_;
    const Group* tensor_;  // null without slices
    std::optional<PipelineStep> pipeline_;
    FullyShardedModel* full_;
    std::optional<Scaler> scaler_;
    std::optional<Ema> ema_;
    std::optional<FusedStep> fused_;
    std::optional<FusedDeviceStep> fused_on_device_;
    bool graph_fused_ = false;                // the captured step is a fused one
    std::optional<GradientReducer> reducer_;  // with several ranks
    bool alone_ = true;                       // no other rank is in the middle of this step
    int ranks_ = 1;
    bool syncs_ = false;               // the ranks' forward passes exchange statistics of batch norm
    std::vector<at::Tensor> buffers_;  // that the ranks do not compute alike
    ForwardSnapshot start_;            // of the step
    std::int64_t largest_ = 0;         // samples of the largest batch so far
    bool short_of_memory_ = false;     // and so options_.accumulate is larger than asked for
    bool intact_ = true;
    std::optional<StepGraph> graph_;
    std::string why_eager_;
    at::Tensor losses_;            // (kOnDevice) float32 on the device
    std::int64_t on_device_ = 0;   // number of losses in losses_
    std::int64_t last_ = 0;        // index of the last step's loss in losses_
    std::vector<double> fetched_;  // losses before those
};

}  // namespace stoker
