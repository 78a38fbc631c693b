// The step as a graph compared with the eager step. Tests without a device use a fake graph (fake_graph.h).
#include "stoker/train/step/graph_step.h"

#include <ATen/Context.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/randn.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <utility>

#include "stoker/bridge/torch_cuda.h"
#include "stoker/models/init.h"
#include "stoker/train/step/step.h"
#include "train/step/fake_graph.h"
#include "train/step/graph_training.h"
#include "train/support.h"

namespace stoker {
namespace {

using testing::capture_with;
using testing::expect_same;
using testing::FakeCalls;
using testing::FakeGraphs;
using testing::graph_batch;
using testing::GraphTraining;
using testing::kFull;
using testing::kGraphOptions;
using testing::lr_of;
using testing::made_slots;
using testing::train;

std::unique_ptr<FakeGraphs> fake(GraphTraining& training, FakeCalls& calls, bool draws_on_host = false) {
    return std::make_unique<FakeGraphs>([&training] { return training.state(); }, calls, draws_on_host);
}

TEST(GraphStep, IsTheEagerStep) {
    for (std::size_t i = 0; i < kGraphOptions.size(); ++i) {
        SCOPED_TRACE(i);
        GraphTraining eager(kGraphOptions[i]);
        GraphTraining graph(kGraphOptions[i]);
        eager.model.dropout = graph.model.dropout = 0.3;
        FakeCalls calls;
        capture_with(graph.step, fake(graph, calls));
        train(eager, 0, 20);
        train(graph, 0, 3);
        EXPECT_EQ(calls.captures, 0);
        EXPECT_EQ(graph.step->compiled(), "eager: a graph is made after 3 steps on whole batches");
        train(graph, 3, 20);
        EXPECT_EQ(graph.step->compiled(), "graph");
        EXPECT_EQ(calls.captures, 1);
        EXPECT_EQ(calls.replays, 20 - 3 - 3);  // warm-up, and three small batches
        EXPECT_EQ(graph.step->take_losses(), eager.step->take_losses());
        expect_same(graph.state(), eager.state());
    }
}

// A replay reads the fields of its own batch, not those of the captured one.
TEST(GraphStep, CarriesAllFieldsOfTheBatch) {
    const StepOptions options{.loss = {.function = [](const at::Tensor& outputs, const DeviceBatch& batch) {
                                  return at::mse_loss(outputs, batch.field("numbers"));
                              }}};
    GraphTraining eager(options);
    GraphTraining graph(options);
    FakeCalls calls;
    capture_with(graph.step, fake(graph, calls));
    for (std::uint64_t i = 0; i < 8; ++i) {
        DeviceBatch batch = graph_batch(kFull, i);
        at::Generator generator = make_generator(100 + i);
        batch.target = at::Tensor();  // any target, or none
        batch.fields = {{"numbers", at::randn({kFull, 4}, generator)}};
        eager.step->run(batch, 0.01);
        graph.step->run(batch, 0.01);
        expect_same(graph.state(), eager.state());
    }
    EXPECT_EQ(calls.replays, 5);
    EXPECT_EQ(graph.step->take_losses(), eager.step->take_losses());
}

// Step `i` of both, on the same batch; in `graph` the batch is in the slot.
void step_on_slot(GraphTraining& eager, GraphTraining& graph, DeviceBatch& slot, std::uint64_t i) {
    const DeviceBatch next = graph_batch(kFull, 100 + i);
    slot.input.copy_(next.input);
    slot.target.copy_(next.target);
    for (auto& [training, batch] : {std::pair<GraphTraining&, const DeviceBatch&>(eager, next), {graph, slot}}) {
        at::Generator draws = at::globalContext().defaultGenerator(at::kCPU);
        draws.set_current_seed(i);
        training.step->run(batch, lr_of(i));
    }
    expect_same(graph.state(), eager.state());
}

// A copier refills its slots in turn. Their graphs read them in place; what lies elsewhere is copied into memory that
// one more graph reads.
TEST(GraphStep, EachSlotOfACopierHasAGraph) {
    GraphTraining eager;
    GraphTraining graph;
    eager.model.dropout = graph.model.dropout = 0.3;
    FakeCalls calls;
    capture_with(graph.step, fake(graph, calls));
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
    EXPECT_EQ(graph.step->take_losses(), eager.step->take_losses());
}

// Memory has room for one graph, but not for the next.
TEST(GraphStep, OneGraphServesAllSlotsWhereAFurtherOneFails) {
    GraphTraining eager;
    GraphTraining graph;
    FakeCalls calls;
    capture_with(graph.step, fake(graph, calls));
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
    EXPECT_EQ(graph.step->compiled(), "graph, which batches are copied for: CUDA out of memory");
    EXPECT_EQ(graph.step->accumulate(), 1);
    EXPECT_EQ(calls.captures, 3);
    EXPECT_EQ(calls.replays, 12 - 3 - 1) << "three steps of warm-up, and the one whose capture failed";
}

TEST(GraphStep, SkipsStepsThatOverflow) {
    const StepOptions options{.precision = {.loss_scaling = true}};
    GraphTraining eager(options);
    GraphTraining graph(options);
    FakeCalls calls;
    capture_with(graph.step, fake(graph, calls));
    for (std::uint64_t i = 0; i < 12; ++i) {
        const DeviceBatch batch = graph_batch(kFull, i);
        if (i % 4 == 3) {
            batch.input.fill_(std::numeric_limits<float>::infinity());
        }
        eager.step->run(batch, 0.01);
        graph.step->run(batch, 0.01);
        expect_same(graph.state(), eager.state());
    }
    EXPECT_EQ(calls.replays, 9);
    EXPECT_LT(graph.step->scaler().scale().item<double>(), ScalerOptions().initial_scale);
}

// The capture fails in the second micro-batch, when the first has left gradients.
TEST(GraphStep, AStepThatCannotBeCapturedStaysEager) {
    const StepOptions options{.accumulate = 2, .ema = 0.9};
    GraphTraining eager(options);
    GraphTraining graph(options);
    FakeCalls calls;
    capture_with(graph.step, fake(graph, calls));
    int passes = 0;  // of the capture
    graph.model.on_forward = [&](const at::Tensor&) {
        if (calls.captures == 1 && ++passes == 2) {
            C10_THROW_ERROR(Error, "CUDA error: operation not permitted when stream is capturing\nand more");
        }
    };
    train(eager, 0, 20);
    train(graph, 0, 20);
    EXPECT_EQ(graph.step->compiled(),
              "eager: the step cannot be captured: CUDA error: operation not permitted when stream is capturing");
    EXPECT_EQ(calls.captures, 1);
    EXPECT_EQ(calls.replays, 0);
    EXPECT_EQ(graph.step->take_losses(), eager.step->take_losses());
    expect_same(graph.state(), eager.state());
}

// A run that resumes within an epoch may begin with the epoch's smaller last batch.
TEST(GraphStep, CapturesTheLargestBatch) {
    GraphTraining training;
    FakeCalls calls;
    capture_with(training.step, fake(training, calls));
    train(training, 5, 9);
    EXPECT_EQ(calls.captures, 0);
    train(training, 9, 11);
    EXPECT_EQ(calls.captures, 1);
    EXPECT_EQ(calls.replays, 2);
}

// Weights, the optimiser's and the scaler's state, averages: all tensors that a step uses are watched.
TEST(GraphStep, IsCapturedAgainWhereATensorGetsOtherMemory) {
    const StepOptions options{.precision = {.loss_scaling = true}, .clip_norm = 1, .ema = 0.9};
    GraphTraining training(options);
    GraphTraining moved(options);
    FakeCalls calls;
    capture_with(moved.step, fake(moved, calls));
    train(training, 0, 5);
    train(moved, 0, 5);
    std::vector<at::Tensor> all = moved.optimizer.tensors();
    for (const at::Tensor& tensor : moved.step->scaler().tensors()) {
        all.push_back(tensor);
    }
    for (const auto& entries : {moved.model.state(), moved.step->ema().state()}) {
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
        training.step->run(batch, 0.01);
        moved.step->run(batch, 0.01);
        EXPECT_EQ(calls.captures, ++captures);
    }
    expect_same(moved.state(), training.state());
}

// Gradients that exist before a step are not part of the graph.
TEST(GraphStep, LeavesGradientsOfTheCallerToTheEagerStep) {
    GraphTraining eager;
    GraphTraining graph;
    FakeCalls calls;
    capture_with(graph.step, fake(graph, calls));
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

TEST(GraphStep, IsCapturedAgainForOtherMicroBatches) {
    GraphTraining training;
    FakeCalls calls;
    capture_with(training.step, fake(training, calls));
    train(training, 0, 5);
    training.step->accumulate_at_least(3, 0);
    train(training, 6, 8);
    EXPECT_EQ(calls.captures, 2);
    EXPECT_EQ(calls.replays, 4);
}

// Every replay would repeat what the host drew during the capture.
TEST(GraphStep, AModelThatDrawsOnTheHostStaysEager) {
    GraphTraining eager;
    GraphTraining graph;
    eager.model.dropout = graph.model.dropout = 0.3;
    FakeCalls calls;
    capture_with(graph.step, fake(graph, calls, /*draws_on_host=*/true));
    train(eager, 0, 20);
    train(graph, 0, 20);
    EXPECT_EQ(graph.step->compiled(), "eager: the step cannot be captured: it draws at random on the host");
    EXPECT_EQ(calls.captures, 1);
    EXPECT_EQ(calls.replays, 0);
    EXPECT_EQ(graph.step->take_losses(), eager.step->take_losses());
    expect_same(graph.state(), eager.state());
}

// If the graph leaves too little memory for smaller batches, it is freed before batches are split.
TEST(GraphStep, IsFreedBeforeBatchesAreSplit) {
    GraphTraining training;
    FakeCalls calls;
    testing::eager(*training.step).before_forward = [&](std::int64_t samples) {
        if (samples < kFull && training.step->compiled() == "graph") {
            C10_THROW_ERROR(OutOfMemoryError, "a test's memory is full");
        }
    };
    capture_with(training.step, fake(training, calls));
    train(training, 0, 9);
    EXPECT_EQ(training.step->compiled(), "eager: the device's memory is too small for a graph beside other steps");
    EXPECT_EQ(training.step->accumulate(), 1);
    EXPECT_EQ(calls.replays, 2);
    EXPECT_EQ(training.step->take_losses().size(), 9U);
}

TEST(GraphStep, AReplayIsInThePhaseStep) {
    GraphTraining training;
    FakeCalls calls;
    capture_with(training.step, fake(training, calls));
    train(training, 0, 3);
    const auto time = [](const StepRecord& record, Phase phase) {
        return record.times[static_cast<std::size_t>(phase)].count();
    };
    const StepRecord eager = training.account.take_record();
    EXPECT_GT(time(eager, Phase::forward), 0);
    train(training, 3, 5);
    EXPECT_GT(time(training.account.take_record(), Phase::step), 0);
}

TEST(GraphStep, ACpuHasNoneAndGivesTheReason) {
    const GraphTraining training;
    EXPECT_EQ(training.step->compiled(), "eager: on a CPU only an mlp has a fused step");
    EXPECT_EQ(GraphTraining({.compile = false}).step->compiled(), "eager: train.compile is none");
}

// The same with a real graph. `./dev test-cuda` runs the tests with Cuda in their names.
}  // namespace
}  // namespace stoker
