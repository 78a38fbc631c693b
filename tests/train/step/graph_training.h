// A small model whose steps are trained as graphs and eagerly, on batches in a copier's slots and elsewhere.
#pragma once

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "stoker/models/init.h"
#include "stoker/train/step/step.h"
#include "train/step/step_kinds.h"
#include "train/support.h"

namespace stoker::testing {

inline constexpr std::int64_t kFull = 24;

// A hidden layer, a buffer that changes with each step, and hooks for tests.
class SmallModel final : public Model {
  public:
    SmallModel() {
        at::Generator generator = make_generator(1);
        first_ = parameter("first", default_uniform({16, 16}, 16, generator));
        second_ = parameter("second", default_uniform({4, 16}, 16, generator));
        count_ = buffer("count", at::zeros({}));
    }
    at::Tensor forward(const at::Tensor& input) override {
        if (training()) {
            count_.add_(1);
        }
        const at::Tensor hidden = at::linear(input.flatten(1), first_).tanh();  // (N, 16)
        if (on_forward) {
            on_forward(hidden);
        }
        return at::linear(at::dropout(hidden, dropout, training()), second_);  // (N, 4)
    }

    double dropout = 0;
    std::function<void(const at::Tensor& hidden)> on_forward;

  private:
    at::Tensor first_;
    at::Tensor second_;
    at::Tensor count_;
};

struct GraphTraining {
    explicit GraphTraining(const StepOptions& options = {}, const at::Device& device = at::kCPU)
        : optimizer(on(model, device).parameters(),
                    {.name = "adamw", .lr = 0.01, .weight_decay = 0.1, .no_decay = {"second"}}),
          step(make_step({model, optimizer, account, device, options})) {
        at::set_num_threads(1);
    }

    static SmallModel& on(SmallModel& model, const at::Device& device) {
        model.to(device, false);
        return model;
    }

    // All tensors that a step changes.
    std::vector<NamedTensor> state() {
        std::vector<NamedTensor> all = model.state();
        const auto add = [&](const std::vector<NamedTensor>& more) { all.insert(all.end(), more.begin(), more.end()); };
        add(optimizer.state());
        add(step->scaler().state());
        add(step->ema().state());
        return all;
    }

    SmallModel model;
    Optimizer optimizer;
    Account account;
    std::unique_ptr<Step> step;
    std::vector<DeviceBatch> slots;  // of a copier, which whole batches take in turn; may be empty
};

inline DeviceBatch graph_batch(std::int64_t samples, std::uint64_t seed, const at::Device& device = at::kCPU) {
    at::Generator generator = make_generator(seed);
    return {.input = at::randn({samples, 1, 4, 4}, generator).to(device),
            .target = at::arange(samples, at::kLong).add(static_cast<std::int64_t>(seed)).remainder(4).to(device)};
}

inline void expect_same(const std::vector<NamedTensor>& a, const std::vector<NamedTensor>& b) {
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < a.size(); ++i) {
        EXPECT_TRUE(at::equal(a[i].tensor, b[i].tensor)) << a[i].name;
    }
}

inline double lr_of(std::uint64_t step) {
    return 0.02 / static_cast<double>(1 + step);
}

// Batches as a copier's slots hold them.
inline std::vector<DeviceBatch> made_slots(std::uint64_t count, const at::Device& device = at::kCPU) {
    std::vector<DeviceBatch> slots;
    for (std::uint64_t i = 0; i < count; ++i) {
        slots.push_back(graph_batch(kFull, i, device));
        slots.back().in_slot = true;
    }
    return slots;
}

// Epochs of six batches, the last one small, and an evaluation with averaged weights after each.
inline void train(GraphTraining& training, std::uint64_t from, std::uint64_t to, const at::Device& device = at::kCPU) {
    for (std::uint64_t i = from; i < to; ++i) {
        at::Generator draws = at::globalContext().defaultGenerator(device);
        draws.set_current_seed(i);
        DeviceBatch batch = graph_batch(i % 6 == 5 ? 5 : kFull, i, device);
        if (i % 6 != 5 && !training.slots.empty()) {
            const DeviceBatch& slot = training.slots[i % training.slots.size()];
            slot.input.copy_(batch.input);
            slot.target.copy_(batch.target);
            batch = slot;
        }
        training.step->run(batch, lr_of(i));
        if (i % 6 == 5) {
            const AveragedWeights averaged(training.step->ema());
            training.model.train(false);
            training.model.forward(graph_batch(7, 1, device).input);
            training.model.train(true);
        }
    }
}

inline const std::vector<StepOptions> kGraphOptions = {
    {},
    {.accumulate = 3},
    {.clip_norm = 0.1, .clip_value = 0.05, .ema = 0.9},
    {.precision = {.autocast = at::kBFloat16}, .loss = {.label_smoothing = 0.1}, .ema = 0.9},
    {.precision = {.loss_scaling = true},
     .accumulate = 2,
     .clip_norm = 1,
     .ema = 0.9,
     .scaler = {.growth_interval = 4}},
    {.loss = {.focal_gamma = 2}},
};

}  // namespace stoker::testing
