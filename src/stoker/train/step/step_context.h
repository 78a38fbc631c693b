// What every kind of step has: model, optimiser and options, and what stays from one batch to the next.
#pragma once

#include "stoker/train/step/step.h"

namespace stoker {

// The losses of steps, on the device until they are read.
class StepLosses {
  public:
    explicit StepLosses(const at::Device& device);

    // A step begins. Waits for the device once in 256 steps.
    void begin();
    // The place of the step's loss: a float32 scalar on the device, which counts from `add` on.
    at::Tensor next() const { return losses_.select(0, on_device_); }
    void add() { ++on_device_; }
    void add(double loss);  // of a device that is the host

    std::vector<double> take();
    std::optional<double> on_host() const;
    at::Tensor last() const { return losses_.select(0, last_); }

  private:
    void fetch();

    at::Tensor losses_;            // float32 on the device
    std::int64_t on_device_ = 0;   // number of losses in losses_
    std::int64_t last_ = 0;        // where the last step's loss is in losses_
    std::vector<double> fetched_;  // losses before those
};

// In how many parts steps split their batches.
class MicroBatches {
  public:
    explicit MicroBatches(std::int64_t accumulate) : accumulate_(accumulate) {}

    std::int64_t accumulate() const { return accumulate_; }
    // The parts of a batch. A batch that is smaller than those that did not fit keeps the size of their parts, since a
    // model may refuse smaller ones.
    std::int64_t of(std::int64_t samples) const;
    // A batch of this size comes. True if none was larger.
    bool add(std::int64_t samples);
    // Once memory has run out: twice as many. False if they have one sample each.
    bool split();
    // False if they are as many already.
    bool at_least(std::int64_t parts, std::int64_t samples);

  private:
    std::int64_t accumulate_;
    std::int64_t largest_ = 0;      // samples of the largest batch so far
    bool short_of_memory_ = false;  // and so accumulate_ is larger than asked for
};

// What ranks with the same parameters and different samples exchange besides gradients; nothing where there is one.
class DataRanks {
  public:
    // `group`: null for one rank. `sync_batch_norm`: forward passes exchange the statistics of batch norm, which the
    // ranks then compute alike.
    DataRanks(Model& model, const Group* group, bool sync_batch_norm);

    int size() const { return group_ != nullptr ? group_->size() : 1; }
    const Group* group() const { return group_; }  // null: one rank
    bool syncs() const { return syncs_; }
    // Rank 0's buffers, such as running statistics, count on all ranks (broadcast_buffers of DistributedDataParallel).
    void share_buffers(Account& account) const;

  private:
    const Group* group_;
    bool syncs_;
    std::vector<at::Tensor> buffers_;  // that the ranks do not compute alike
};

struct StepContext {
    // `ranks`: those of StepRanks that have other samples, or shards.
    StepContext(Model& of, Optimizer& with, Account& in, const at::Device& on, const StepOptions& given,
                const StepRanks& ranks)
        : model(of),
          optimizer(with),
          account(in),
          device(on),
          options(given),
          data(of, ranks.data, given.sync_batch_norm),
          tensor(ranks.tensor),
          scaler(given.precision.loss_scaling ? Scaler(on, given.scaler) : Scaler()),
          ema(given.ema > 0 ? Ema(ranks.full != nullptr ? ranks.full->state() : of.state(), given.ema) : Ema()),
          losses(on),
          micro_batches(given.accumulate) {}

    Model& model;
    Optimizer& optimizer;
    Account& account;
    at::Device device;
    StepOptions options;
    DataRanks data;
    const Group* tensor;  // StepRanks::tensor; null: one rank
    Scaler scaler;
    Ema ema;
    StepLosses losses;
    MicroBatches micro_batches;
    bool intact = true;  // Step::intact
};

}  // namespace stoker
