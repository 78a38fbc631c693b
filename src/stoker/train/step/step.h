// One optimiser step: forward, loss, backward, update, with autocast, loss scaling, micro-batches, clipping
// and averaged weights. Losses stay on the device until they are read, so the host never waits within a step.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "stoker/bridge/device.h"
#include "stoker/bridge/torch_error.h"
#include "stoker/dist/group.h"
#include "stoker/models/model.h"
#include "stoker/records/account.h"
#include "stoker/train/step/autocast.h"
#include "stoker/train/step/ema.h"
#include "stoker/train/step/optimizer.h"
#include "stoker/train/step/pipeline_step.h"
#include "stoker/train/step/scaler.h"

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

// The ranks that make each step together; null: this rank alone.
struct StepRanks {
    const Group* data = nullptr;                    // average the gradients of their samples
    const Group* tensor = nullptr;                  // have the same samples, and slices of the model (Model::divide)
    std::optional<StagePlan> stage = std::nullopt;  // of a model that is not a whole one (Model::keep_blocks)
    FullyShardedModel* full = nullptr;              // whose parameters the ranks of `data` have divided among them
};

// The arguments of make_step. Model, optimizer, account and ranks must outlive the step.
struct StepParts {
    Model& model;
    Optimizer& optimizer;
    Account& account;
    at::Device device;
    StepOptions options = {};
    StepRanks ranks = {};
    // Copies of the model on further devices, which compute parts of each batch. Not with other ranks.
    std::span<const std::unique_ptr<Model>> replicas = {};
};

// make_step chooses among the kinds of step, which have the same result.
class Step {
  public:
    virtual ~Step() = default;

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

    // The state of optimiser and scaler, as a checkpoint's file of the optimiser has it.
    std::vector<NamedTensor> optimizer_state() const;
    // Restores optimiser, scaler and averaged weights from a checkpoint: `optimizer` is an optimizer_state(). Throws
    // InvalidArgument for those of another optimiser, and where the checkpoint has a scaler or averages and this step
    // does not, or the other way round.
    void load(const std::vector<NamedTensor>& optimizer, const std::vector<NamedTensor>& ema);

    // In how many micro-batches steps split a batch: StepOptions::accumulate, or more once memory ran out.
    std::int64_t accumulate() const { return options_.accumulate; }
    // Restores the number of micro-batches that memory forced before, for batches of up to `samples`.
    virtual void accumulate_at_least(std::int64_t /*parts*/, std::int64_t /*samples*/) {}
    // All tensors that a step reads or writes besides its batch. Gradients are not among them: each step allocates its
    // own.
    std::vector<at::Tensor> memory() const;
    // How steps run: "fused" (an mlp on a CPU), "graph", "graph, fused" (an mlp's kernels), or "eager: " and the
    // reason. A graph is captured in an early step. If there is room for one graph only, ", which batches are copied
    // for: " and the reason follow.
    virtual std::string compiled() const = 0;
    // Frees the graph if there is one; later steps are eager.
    virtual bool free_graph() { return false; }
    // Returns work(). If memory runs out beside a graph, frees the graph and calls `work` again.
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
    // The share of the time since the last call that this stage waited for others; empty for a whole model.
    virtual std::optional<double> take_idle_share() { return std::nullopt; }
    Ema& ema() { return ema_; }                       // averages nothing without StepOptions::ema
    const Scaler& scaler() const { return scaler_; }  // scales nothing where the precision needs no scaling
    const Ema& ema() const { return ema_; }

  protected:
    explicit Step(const StepParts& parts);
    Step(Step&&) = default;

    // `run`, which writes the loss into `last_loss()`.
    virtual void train(const DeviceBatch& batch, double lr, std::int64_t samples) = 0;

    Model& model_;
    Optimizer& optimizer_;
    Account& account_;
    at::Device device_;
    StepOptions options_;
    StepRanks ranks_;
    Scaler scaler_;
    Ema ema_;
    bool intact_ = true;

  private:
    void fetch_losses();

    at::Tensor losses_;            // (kOnDevice) float32 on the device
    std::int64_t on_device_ = 0;   // number of losses in losses_
    std::int64_t last_ = 0;        // index of the last step's loss in losses_
    std::vector<double> fetched_;  // losses before those
};

// A fused step, a graph or an eager step, as model, device and options allow; with other ranks an eager one. All ranks
// must call it.
std::unique_ptr<Step> make_step(StepParts parts);

}  // namespace stoker
