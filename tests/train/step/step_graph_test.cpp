// The step as a graph compared with the eager step. Tests without a device use a fake graph (fake_graph.h).
#include "stoker/train/step/step_graph.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <utility>

#include "stoker/bridge/torch_cuda.h"
#include "stoker/models/init.h"
#include "stoker/train/step/step.h"
#include "train/step/fake_graph.h"
#include "train/support.h"

namespace stoker {
namespace {

using testing::FakeCalls;
using testing::FakeGraphs;

constexpr std::int64_t kFull = 24;

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
          step(model, optimizer, account, device, options) {
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
        if (step.scaler() != nullptr) {
            add(step.scaler()->state());
        }
        if (step.ema() != nullptr) {
            add(step.ema()->state());
        }
        return all;
    }

    SmallModel model;
    Optimizer optimizer;
    Account account;
    Step step;
};

DeviceBatch graph_batch(std::int64_t samples, std::uint64_t seed, const at::Device& device = at::kCPU) {
    at::Generator generator = make_generator(seed);
    return {.input = at::randn({samples, 1, 4, 4}, generator).to(device),
            .target = at::arange(samples, at::kLong).add(static_cast<std::int64_t>(seed)).remainder(4).to(device)};
}

std::unique_ptr<FakeGraphs> fake(GraphTraining& training, FakeCalls& calls, bool draws_on_host = false) {
    return std::make_unique<FakeGraphs>([&training] { return training.state(); }, calls, draws_on_host);
}

void expect_same(const std::vector<NamedTensor>& a, const std::vector<NamedTensor>& b) {
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < a.size(); ++i) {
        EXPECT_TRUE(at::equal(a[i].tensor, b[i].tensor)) << a[i].name;
    }
}

double lr_of(std::uint64_t step) {
    return 0.02 / static_cast<double>(1 + step);
}

// Epochs of six batches, the last one small, and an evaluation with averaged weights after each.
void train(GraphTraining& training, std::uint64_t from, std::uint64_t to, const at::Device& device = at::kCPU) {
    for (std::uint64_t i = from; i < to; ++i) {
        at::Generator draws = at::globalContext().defaultGenerator(device);
        draws.set_current_seed(i);
        training.step.run(graph_batch(i % 6 == 5 ? 5 : kFull, i, device), lr_of(i));
        if (i % 6 == 5) {
            const AveragedWeights averaged(training.step.ema());
            training.model.train(false);
            training.model.forward(graph_batch(7, 1, device).input);
            training.model.train(true);
        }
    }
}

const std::vector<StepOptions> kGraphOptions = {
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

TEST(StepGraph, IsTheEagerStep) {
    for (std::size_t i = 0; i < kGraphOptions.size(); ++i) {
        SCOPED_TRACE(i);
        GraphTraining eager(kGraphOptions[i]);
        GraphTraining graph(kGraphOptions[i]);
        eager.model.dropout = graph.model.dropout = 0.3;
        FakeCalls calls;
        graph.step.capture_with(fake(graph, calls));
        train(eager, 0, 20);
        train(graph, 0, 3);
        EXPECT_EQ(calls.captures, 0);
        EXPECT_EQ(graph.step.compiled(), "eager: a graph is made after 3 steps on whole batches");
        train(graph, 3, 20);
        EXPECT_EQ(graph.step.compiled(), "graph");
        EXPECT_EQ(calls.captures, 1);
        EXPECT_EQ(calls.replays, 20 - 3 - 3);  // warm-up, and three small batches
        EXPECT_EQ(graph.step.take_losses(), eager.step.take_losses());
        expect_same(graph.state(), eager.state());
    }
}

// A replay reads the fields of its own batch, not those of the captured one.
TEST(StepGraph, CarriesAllFieldsOfTheBatch) {
    const StepOptions options{.loss = {.function = [](const at::Tensor& outputs, const DeviceBatch& batch) {
                                  return at::mse_loss(outputs, batch.field("numbers"));
                              }}};
    GraphTraining eager(options);
    GraphTraining graph(options);
    FakeCalls calls;
    graph.step.capture_with(fake(graph, calls));
    for (std::uint64_t i = 0; i < 8; ++i) {
        DeviceBatch batch = graph_batch(kFull, i);
        at::Generator generator = make_generator(100 + i);
        batch.target = at::Tensor();  // any target, or none
        batch.fields = {{"numbers", at::randn({kFull, 4}, generator)}};
        eager.step.run(batch, 0.01);
        graph.step.run(batch, 0.01);
        expect_same(graph.state(), eager.state());
    }
    EXPECT_EQ(calls.replays, 5);
    EXPECT_EQ(graph.step.take_losses(), eager.step.take_losses());
}

// Batches as a copier's slots hold them.
std::vector<DeviceBatch> made_slots(std::uint64_t count) {
    std::vector<DeviceBatch> slots;
    for (std::uint64_t i = 0; i < count; ++i) {
        slots.push_back(graph_batch(kFull, i));
        slots.back().in_slot = true;
    }
    return slots;
}

// Step `i` of both, on the same batch; in `graph` it lies in the slot.
void step_on_slot(GraphTraining& eager, GraphTraining& graph, DeviceBatch& slot, std::uint64_t i) {
    const DeviceBatch next = graph_batch(kFull, 100 + i);
    slot.input.copy_(next.input);
    slot.target.copy_(next.target);
    for (auto& [training, batch] : {std::pair<GraphTraining&, const DeviceBatch&>(eager, next), {graph, slot}}) {
        at::Generator draws = at::globalContext().defaultGenerator(at::kCPU);
        draws.set_current_seed(i);
        training.step.run(batch, lr_of(i));
    }
    expect_same(graph.state(), eager.state());
}

// A copier refills its slots in turn. Their graphs read them in place; what lies elsewhere is copied into memory that
// one more graph reads.
TEST(StepGraph, EachSlotOfACopierHasAGraph) {
    GraphTraining eager;
    GraphTraining graph;
    eager.model.dropout = graph.model.dropout = 0.3;
    FakeCalls calls;
    graph.step.capture_with(fake(graph, calls));
    std::vector<DeviceBatch> slots = made_slots(4);
    const auto step = [&](std::uint64_t i, DeviceBatch& slot) { step_on_slot(eager, graph, slot, i); };
    std::set<const void*> read;
    for (std::uint64_t i = 0; i < 12; ++i) {
        step(i, slots[i % 3]);
        read.insert(calls.outside.begin(), calls.outside.end());
    }
    EXPECT_EQ(calls.captures, 3);
    EXPECT_EQ(calls.replays, 9);
    for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_TRUE(read.contains(slots[i].input.const_data_ptr()));
        EXPECT_TRUE(read.contains(slots[i].target.const_data_ptr()));
    }
    step(12, slots[3]);
    EXPECT_EQ(calls.captures, 4);
    EXPECT_FALSE(calls.outside.contains(slots[3].input.const_data_ptr()));
    slots[3].in_slot = false;
    step(13, slots[3]);
    step(14, slots[1]);
    EXPECT_EQ(calls.captures, 4);
    EXPECT_EQ(calls.replays, 12);
    at::Tensor parameter = graph.model.parameters()[0].tensor;
    parameter.set_data(parameter.detach().clone());
    for (std::uint64_t i = 15; i < 21; ++i) {
        step(i, slots[i % 3]);
    }
    EXPECT_EQ(calls.captures, 4 + 3) << "none of them reads the old parameter";
    EXPECT_EQ(calls.replays, 18);
    EXPECT_EQ(graph.step.take_losses(), eager.step.take_losses());
}

// Memory has room for one graph, but not for the next.
TEST(StepGraph, OneGraphServesAllSlotsWhereAFurtherOneFails) {
    GraphTraining eager;
    GraphTraining graph;
    FakeCalls calls;
    graph.step.capture_with(fake(graph, calls));
    bool failed = false;
    graph.model.on_forward = [&](const at::Tensor&) {
        if (calls.captures == 2 && !std::exchange(failed, true)) {
            C10_THROW_ERROR(OutOfMemoryError, "CUDA out of memory");
        }
    };
    std::vector<DeviceBatch> slots = made_slots(3);
    for (std::uint64_t i = 0; i < 12; ++i) {
        step_on_slot(eager, graph, slots[i % 3], i);
    }
    EXPECT_TRUE(failed);
    EXPECT_EQ(graph.step.compiled(), "graph");
    EXPECT_EQ(graph.step.accumulate(), 1);
    EXPECT_EQ(calls.captures, 3);
    EXPECT_EQ(calls.replays, 12 - 3 - 1) << "three steps of warm-up, and the one whose capture failed";
}

TEST(StepGraph, SkipsStepsThatOverflow) {
    const StepOptions options{.precision = {.loss_scaling = true}};
    GraphTraining eager(options);
    GraphTraining graph(options);
    FakeCalls calls;
    graph.step.capture_with(fake(graph, calls));
    for (std::uint64_t i = 0; i < 12; ++i) {
        const DeviceBatch batch = graph_batch(kFull, i);
        if (i % 4 == 3) {
            batch.input.fill_(std::numeric_limits<float>::infinity());
        }
        eager.step.run(batch, 0.01);
        graph.step.run(batch, 0.01);
        expect_same(graph.state(), eager.state());
    }
    EXPECT_EQ(calls.replays, 9);
    EXPECT_LT(graph.step.scaler()->scale().item<double>(), ScalerOptions().initial_scale);
}

// The capture fails in the second micro-batch, when the first has left gradients.
TEST(StepGraph, AStepThatCannotBeCapturedStaysEager) {
    const StepOptions options{.accumulate = 2, .ema = 0.9};
    GraphTraining eager(options);
    GraphTraining graph(options);
    FakeCalls calls;
    graph.step.capture_with(fake(graph, calls));
    int passes = 0;  // of the capture
    graph.model.on_forward = [&](const at::Tensor&) {
        if (calls.captures == 1 && ++passes == 2) {
            C10_THROW_ERROR(Error, "CUDA error: operation not permitted when stream is capturing\nand more");
        }
    };
    train(eager, 0, 20);
    train(graph, 0, 20);
    EXPECT_EQ(graph.step.compiled(),
              "eager: the step cannot be captured: CUDA error: operation not permitted when stream is capturing");
    EXPECT_EQ(calls.captures, 1);
    EXPECT_EQ(calls.replays, 0);
    EXPECT_EQ(graph.step.take_losses(), eager.step.take_losses());
    expect_same(graph.state(), eager.state());
}

// A run that resumes within an epoch may begin with the epoch's smaller last batch.
TEST(StepGraph, CapturesTheLargestBatch) {
    GraphTraining training;
    FakeCalls calls;
    training.step.capture_with(fake(training, calls));
    train(training, 5, 9);
    EXPECT_EQ(calls.captures, 0);
    train(training, 9, 11);
    EXPECT_EQ(calls.captures, 1);
    EXPECT_EQ(calls.replays, 2);
}

// Weights, the optimiser's and the scaler's state, averages: all tensors that a step uses are watched.
TEST(StepGraph, IsCapturedAgainWhereATensorGetsOtherMemory) {
    const StepOptions options{.precision = {.loss_scaling = true}, .clip_norm = 1, .ema = 0.9};
    GraphTraining training(options);
    GraphTraining moved(options);
    FakeCalls calls;
    moved.step.capture_with(fake(moved, calls));
    train(training, 0, 5);
    train(moved, 0, 5);
    std::vector<at::Tensor> all = moved.optimizer.tensors();
    for (const at::Tensor& tensor : moved.step.scaler()->tensors()) {
        all.push_back(tensor);
    }
    for (const auto& entries : {moved.model.state(), moved.step.ema()->state()}) {
        for (const NamedTensor& entry : entries) {
            all.push_back(entry.tensor);
        }
    }
    // The recorded work also uses the graph's own batch, labels and loss.
    const std::set<const void*> outside = calls.outside;
    const auto known = std::ranges::count_if(std::set<const void*>(outside), [&](const void* memory) {
        return std::ranges::any_of(all, [&](const at::Tensor& t) { return t.const_data_ptr() == memory; });
    });
    EXPECT_EQ(static_cast<std::int64_t>(outside.size()) - known, 3);
    int captures = calls.captures;
    for (at::Tensor& tensor : all) {
        tensor.set_data(tensor.detach().clone());
        const DeviceBatch batch = graph_batch(kFull, 1);
        training.step.run(batch, 0.01);
        moved.step.run(batch, 0.01);
        EXPECT_EQ(calls.captures, ++captures);
    }
    expect_same(moved.state(), training.state());
}

// Gradients that exist before a step are not part of the graph.
TEST(StepGraph, LeavesGradientsOfTheCallerToTheEagerStep) {
    GraphTraining eager;
    GraphTraining graph;
    FakeCalls calls;
    graph.step.capture_with(fake(graph, calls));
    train(eager, 0, 5);
    train(graph, 0, 5);
    for (GraphTraining* training : {&eager, &graph}) {
        at::Tensor parameter = training->model.parameters()[0].tensor;
        parameter.mutable_grad() = at::ones_like(parameter).detach();
    }
    EXPECT_EQ(calls.replays, 2);
    train(eager, 6, 7);
    train(graph, 6, 7);
    EXPECT_EQ(calls.replays, 2);
    train(eager, 7, 9);
    train(graph, 7, 9);
    EXPECT_EQ(calls.replays, 4);
    expect_same(graph.state(), eager.state());
}

TEST(StepGraph, IsCapturedAgainForOtherMicroBatches) {
    GraphTraining training;
    FakeCalls calls;
    training.step.capture_with(fake(training, calls));
    train(training, 0, 5);
    training.step.accumulate_at_least(3);
    train(training, 6, 8);
    EXPECT_EQ(calls.captures, 2);
    EXPECT_EQ(calls.replays, 4);
}

// Every replay would repeat what the host drew during the capture.
TEST(StepGraph, AModelThatDrawsOnTheHostStaysEager) {
    GraphTraining eager;
    GraphTraining graph;
    eager.model.dropout = graph.model.dropout = 0.3;
    FakeCalls calls;
    graph.step.capture_with(fake(graph, calls, /*draws_on_host=*/true));
    train(eager, 0, 20);
    train(graph, 0, 20);
    EXPECT_EQ(graph.step.compiled(), "eager: the step cannot be captured: it draws at random on the host");
    EXPECT_EQ(calls.captures, 1);
    EXPECT_EQ(calls.replays, 0);
    EXPECT_EQ(graph.step.take_losses(), eager.step.take_losses());
    expect_same(graph.state(), eager.state());
}

// If the graph leaves too little memory for smaller batches, it is freed before batches are split.
TEST(StepGraph, IsFreedBeforeBatchesAreSplit) {
    GraphTraining training;
    FakeCalls calls;
    training.step.capture_with(fake(training, calls));
    training.step.before_forward = [&](std::int64_t samples) {
        if (samples < kFull && training.step.compiled() == "graph") {
            C10_THROW_ERROR(OutOfMemoryError, "a test's memory is full");
        }
    };
    train(training, 0, 9);
    EXPECT_EQ(training.step.compiled(), "eager: the device's memory is too small for a graph beside other steps");
    EXPECT_EQ(training.step.accumulate(), 1);
    EXPECT_EQ(calls.replays, 2);
    EXPECT_EQ(training.step.take_losses().size(), 9U);
}

TEST(StepGraph, AReplayIsInThePhaseStep) {
    GraphTraining training;
    FakeCalls calls;
    training.step.capture_with(fake(training, calls));
    train(training, 0, 3);
    const auto time = [](const StepRecord& record, Phase phase) {
        return record.times[static_cast<std::size_t>(phase)].count();
    };
    const StepRecord eager = training.account.cut();
    EXPECT_GT(time(eager, Phase::forward), 0);
    train(training, 3, 5);
    EXPECT_GT(time(training.account.cut(), Phase::step), 0);
}

TEST(StepGraph, ACpuHasNoneAndGivesTheReason) {
    const GraphTraining training;
    EXPECT_EQ(training.step.compiled(), "eager: on a CPU only an mlp has a fused step");
    EXPECT_EQ(GraphTraining({.compile = false}).step.compiled(), "eager: train.compile is none");
}

// The same with a real graph. `./dev test-cuda` runs the tests with Cuda in their names.
class StepGraphCuda : public ::testing::Test {
  protected:
    void SetUp() override {
        if (!device_.is_cuda()) {
            GTEST_SKIP() << "no CUDA device";
        }
    }
    at::Device device_ = pick_device("auto");
};

TEST_F(StepGraphCuda, IsTheEagerStep) {
    for (std::size_t i = 0; i < kGraphOptions.size(); ++i) {
        SCOPED_TRACE(i);
        StepOptions one_by_one = kGraphOptions[i];
        one_by_one.compile = false;
        GraphTraining eager(one_by_one, device_);
        GraphTraining graph(kGraphOptions[i], device_);
        eager.model.dropout = graph.model.dropout = 0.3;
        train(eager, 0, 20, device_);
        train(graph, 0, 20, device_);
        EXPECT_EQ(graph.step.compiled(), "graph");
        const std::vector<double> expected = eager.step.take_losses();
        const std::vector<double> losses = graph.step.take_losses();
        ASSERT_EQ(losses.size(), expected.size());
        for (std::size_t s = 0; s < losses.size(); ++s) {
            EXPECT_NEAR(losses[s], expected[s], 1e-4) << s;
        }
        const std::vector<NamedTensor> a = graph.state();
        const std::vector<NamedTensor> b = eager.state();
        ASSERT_EQ(a.size(), b.size());
        for (std::size_t t = 0; t < a.size(); ++t) {
            EXPECT_TRUE(at::allclose(a[t].tensor, b[t].tensor, 1e-3, 1e-5)) << a[t].name;
        }
    }
}

// A step that waits for the device cannot be captured. Dropout continues to draw after the failed capture.
TEST_F(StepGraphCuda, AStepThatWaitsStaysEager) {
    GraphTraining eager({.compile = false}, device_);
    GraphTraining graph({}, device_);
    eager.model.dropout = graph.model.dropout = 0.3;
    double seen = 0;
    graph.model.on_forward = [&](const at::Tensor& hidden) { seen += hidden.sum().item<double>(); };
    train(eager, 0, 20, device_);
    train(graph, 0, 20, device_);
    EXPECT_NE(seen, 0);
    EXPECT_TRUE(graph.step.compiled().starts_with("eager: the step cannot be captured: ")) << graph.step.compiled();
    EXPECT_EQ(graph.step.take_losses().size(), 20U);
    for (std::size_t i = 0; i < 2; ++i) {
        EXPECT_TRUE(at::allclose(graph.model.parameters()[i].tensor, eager.model.parameters()[i].tensor, 1e-3, 1e-5));
    }
    GraphTraining after({}, device_);  // the device can capture again
    train(after, 0, 5, device_);
    EXPECT_EQ(after.step.compiled(), "graph");
}

// Both runs draw the same, regardless of earlier draws, and no draw is recorded.
TEST_F(StepGraphCuda, WhatAModelDrawsOnTheHostIsSeededToo) {
    std::vector<double> drawn[2];
    for (std::uint64_t i = 0; i < 2; ++i) {
        at::manual_seed(i);
        auto model = std::make_unique<testing::LinearModel>();
        model->before_forward = [&] { drawn[i].push_back(at::rand({}).item<double>()); };
        Recipe recipe = testing::small_recipe(2);
        recipe.device = device_.str();
        Trainer trainer(recipe, {std::make_shared<testing::SquareDataset>(100), nullptr}, std::move(model));
        EXPECT_EQ(trainer.fit().compiled, "eager: the step cannot be captured: it draws at random on the host");
    }
    EXPECT_GE(drawn[0].size(), 14U);
    EXPECT_NE(drawn[0][0], drawn[0][1]);
    EXPECT_EQ(drawn[0], drawn[1]);
}

TEST_F(StepGraphCuda, TheMemoryIsCounted) {
    GraphTraining training({}, device_);
    train(training, 0, 5, device_);
    const DeviceMemory memory = torch_cuda().memory(device_);
    EXPECT_GT(memory.allocated, 0);
    EXPECT_GE(memory.reserved, memory.allocated);
    EXPECT_GE(memory.peak_allocated, memory.allocated);
    EXPECT_GE(memory.peak_reserved, memory.peak_allocated);
}

}  // namespace
}  // namespace stoker
