// Memory that runs out anywhere in a step: each allocation fails in turn, and the step is the same as one that fits.
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "stoker/models/init.h"
#include "stoker/train/step/step.h"
#include "support/failing_allocator.h"
#include "train/step/fake_graph.h"
#include "train/step/step_kinds.h"
#include "train/support.h"

namespace stoker {
namespace {

using testing::capture_with;
using testing::eager;
using testing::FailingAllocator;
using testing::FakeCalls;
using testing::FakeGraphs;

constexpr std::int64_t kSamples = 16;

// Two layers with dropout, which draws, and a buffer that changes with each pass.
class DrawingModel final : public Model {
  public:
    DrawingModel() {
        at::Generator generator = make_generator(1);
        first_ = parameter("first", default_uniform({8, 16}, 16, generator));
        second_ = parameter("second", default_uniform({4, 8}, 8, generator));
        sum_ = buffer("sum", at::zeros({8}));
    }
    at::Tensor forward(const at::Tensor& input) override {
        const at::Tensor hidden = at::dropout(at::linear(input.flatten(1), first_).tanh(), 0.5, training());
        sum_.add_(hidden.detach().sum(0));
        return at::linear(hidden, second_);
    }

  private:
    at::Tensor first_;
    at::Tensor second_;
    at::Tensor sum_;
};

// A replay allocates nothing: its memory is the graph's.
class GraphsWithMemory final : public DeviceGraphs {
  public:
    GraphsWithMemory(std::function<std::vector<NamedTensor>()> state, FakeCalls& calls)
        : graphs_(std::move(state), calls, /*draws_on_host=*/false) {}
    void capture(const std::function<void()>& work) override { graphs_.capture(work); }
    void replay(std::size_t number) override {
        const FailingAllocator::Pause pause;
        graphs_.replay(number);
    }
    void clear() override { graphs_.clear(); }

  private:
    FakeGraphs graphs_;
};

struct MemoryTraining {
    MemoryTraining(const std::string& name, std::int64_t accumulate)
        : optimizer(model.parameters(),
                    {.name = name, .lr = 0.01, .momentum = 0.9, .weight_decay = 0.1, .no_decay = {"second"}}),
          step(make_step({model,
                          optimizer,
                          account,
                          at::kCPU,
                          {.precision = {.loss_scaling = true},
                           .accumulate = accumulate,
                           .clip_norm = 0.1,
                           .clip_value = 0.05,
                           .ema = 0.9}})) {
        at::set_num_threads(1);
    }

    std::vector<NamedTensor> state() {
        std::vector<NamedTensor> all = model.state();
        for (const auto& more : {optimizer.state(), step->scaler().state(), step->ema().state()}) {
            all.insert(all.end(), more.begin(), more.end());
        }
        return all;
    }

    DrawingModel model;
    Optimizer optimizer;
    Account account;
    std::unique_ptr<Step> step;
};

DeviceBatch batch_of(std::uint64_t seed) {
    at::Generator generator = make_generator(seed);
    return {.input = at::randn({kSamples, 1, 4, 4}, generator), .target = at::arange(kSamples, at::kLong).remainder(4)};
}

// Steps `from` to `to`; in step `at` allocation `fails` fails. Returns whether there was such an allocation.
bool train(MemoryTraining& training, std::uint64_t from, std::uint64_t to, std::uint64_t at = 99,
           std::int64_t fails = 0) {
    FailingAllocator& memory = FailingAllocator::instance();
    bool failed = false;
    for (std::uint64_t i = from; i < to; ++i) {
        const DeviceBatch batch = batch_of(i);
        at::manual_seed(i);
        if (i == at) {
            memory.fail(fails);
        }
        try {
            training.step->run(batch, 0.01);
        } catch (const std::exception& error) {
            ADD_FAILURE() << "allocation " << fails << " of step " << i << ": " << error.what();
        }
        failed = failed || memory.failed();
        memory.fail_none();
    }
    return failed;
}

void expect_same(MemoryTraining& a, MemoryTraining& b) {
    EXPECT_EQ(a.step->take_losses(), b.step->take_losses());
    const std::vector<NamedTensor> own = a.state();
    const std::vector<NamedTensor> other = b.state();
    ASSERT_EQ(own.size(), other.size());
    for (std::size_t i = 0; i < own.size(); ++i) {
        EXPECT_TRUE(at::equal(own[i].tensor, other[i].tensor)) << own[i].name;
    }
}

// The first step, and one with the optimiser's state. The batch is split in two, to the last bit as if it always were.
TEST(StepMemory, MayRunOutAnywhereInAnEagerStep) {
    for (const std::string name : {"sgd", "adam", "adamw"}) {
        for (const std::uint64_t at : {0U, 1U}) {
            std::int64_t number = 0;
            for (bool failed = true; failed && !HasFailure(); ++number) {
                SCOPED_TRACE(fmt::format("{}, allocation {} of step {}", name, number, at));
                MemoryTraining split(name, 1);
                MemoryTraining fitting(name, 1);
                failed = train(split, 0, 3, at, number);
                train(fitting, 0, at);
                fitting.step->accumulate_at_least(failed ? 2 : 1, kSamples);
                train(fitting, at, 3);
                EXPECT_EQ(split.step->accumulate(), failed ? 2 : 1);
                EXPECT_TRUE(split.step->intact());
                expect_same(split, fitting);
            }
            EXPECT_GT(number, 10);  // of the forward pass, the backward pass, unscaling and clipping
        }
    }
}

// Steps 0 to 2 are eager, step 3 is captured.
TEST(StepMemory, MayRunOutAnywhereInAGraphStep) {
    for (const std::uint64_t at : {0U, 3U}) {
        std::int64_t number = 0;
        for (bool failed = true; failed && !HasFailure(); ++number) {
            SCOPED_TRACE(fmt::format("allocation {} of step {}", number, at));
            MemoryTraining graph("adamw", 1);
            MemoryTraining eager("adamw", 1);
            FakeCalls calls;
            capture_with(graph.step, std::make_unique<GraphsWithMemory>([&] { return graph.state(); }, calls));
            failed = train(graph, 0, 6, at, number);
            train(eager, 0, at);
            eager.step->accumulate_at_least(graph.step->accumulate(), kSamples);
            train(eager, at, 6);
            EXPECT_TRUE(graph.step->intact());
            expect_same(graph, eager);
        }
        EXPECT_GT(number, 10);
    }
}

// Also where a resumed run begins with it.
TEST(StepMemory, ASmallerBatchIsSplitIntoPartsOfTheSameSize) {
    const auto parts_of = [](bool short_of_memory, std::int64_t samples) {
        MemoryTraining training("sgd", short_of_memory ? 1 : kSamples / 2);
        training.step->accumulate_at_least(kSamples / 2, kSamples);  // parts of two
        std::vector<std::int64_t> parts;
        eager(*training.step).before_forward = [&](std::int64_t size) { parts.push_back(size); };
        training.step->run(batch_of(1).narrow(0, samples), 0.01);
        return parts;
    };
    EXPECT_EQ(parts_of(true, 2), std::vector<std::int64_t>{2});
    EXPECT_EQ(parts_of(true, kSamples), std::vector<std::int64_t>(kSamples / 2, 2));
    EXPECT_EQ(parts_of(false, 2), (std::vector<std::int64_t>{1, 1})) << "as the recipe asks for";
}

TEST(StepMemory, ASmallerBatchIsSplitDownToItsSamples) {
    MemoryTraining training("sgd", 1);
    training.step->accumulate_at_least(2, kSamples);
    std::vector<std::int64_t> parts;
    eager(*training.step).before_forward = [&](std::int64_t size) {
        if (size > 1) {
            parts.clear();  // the step begins again
            C10_THROW_ERROR(OutOfMemoryError, "CUDA out of memory");
        }
        parts.push_back(size);
    };
    training.step->run(batch_of(0).narrow(0, 3), 0.01);
    EXPECT_EQ(parts, (std::vector<std::int64_t>{1, 1, 1}));
    eager(*training.step).before_forward = [](std::int64_t) {
        C10_THROW_ERROR(OutOfMemoryError, "CUDA out of memory");
    };
    EXPECT_THROW(training.step->run(batch_of(1).narrow(0, 3), 0.01), c10::OutOfMemoryError);
}

TEST(StepMemory, WhatDoesNotFitBesideAGraphEndsIt) {
    MemoryTraining training("sgd", 1);
    FakeCalls calls;
    capture_with(training.step, std::make_unique<GraphsWithMemory>([&] { return training.state(); }, calls));
    train(training, 0, 5);
    ASSERT_EQ(training.step->compiled(), "graph");
    int attempts = 0;
    const auto copy = [&] {
        if (++attempts == 1) {
            C10_THROW_ERROR(OutOfMemoryError, "CUDA out of memory");
        }
        return attempts;
    };
    EXPECT_EQ(training.step->beside_graph(copy), 2);
    EXPECT_EQ(training.step->compiled(), "eager: the device's memory is too small for a graph beside other steps");
    attempts = 0;
    EXPECT_THROW(training.step->beside_graph(copy), c10::OutOfMemoryError);  // no graph is left
    EXPECT_EQ(attempts, 1);
    const auto other = []() -> int { C10_THROW_ERROR(ValueError, "something else"); };
    EXPECT_THROW(training.step->beside_graph(other), c10::ValueError);
}

}  // namespace
}  // namespace stoker
