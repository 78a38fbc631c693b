// The step as a CUDA graph on a real GPU, compared with the eager step. `./dev test-cuda` runs these tests.
#include <ATen/ops/allclose.h>
#include <ATen/ops/rand.h>
#include <gtest/gtest.h>

#include "stoker/bridge/torch_cuda.h"
#include "train/step/graph_training.h"

namespace stoker {
namespace {

using testing::GraphTraining;
using testing::kGraphOptions;
using testing::made_slots;
using testing::train;

class GraphStepCuda : public ::testing::Test {
  protected:
    void SetUp() override {
        if (!device_.is_cuda()) {
            GTEST_SKIP() << "no CUDA device";
        }
    }
    at::Device device_ = pick_device("auto");
};

// With each set of options on batches in slots, which have a graph each, and elsewhere.
TEST_F(GraphStepCuda, IsTheEagerStep) {
    for (std::size_t n = 0; n < 2 * kGraphOptions.size(); ++n) {
        SCOPED_TRACE(n);
        const StepOptions& options = kGraphOptions[n / 2];
        StepOptions one_by_one = options;
        one_by_one.compile = false;
        GraphTraining eager(one_by_one, device_);
        GraphTraining graph(options, device_);
        graph.slots = made_slots(n % 2 == 0 ? 0 : 3, device_);
        eager.model.dropout = graph.model.dropout = 0.3;
        train(eager, 0, 20, device_);
        train(graph, 0, 20, device_);
        EXPECT_EQ(graph.step->compiled(), "graph");
        const std::vector<double> expected = eager.step->take_losses();
        const std::vector<double> losses = graph.step->take_losses();
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
TEST_F(GraphStepCuda, AStepThatWaitsStaysEager) {
    GraphTraining eager({.compile = false}, device_);
    GraphTraining graph({}, device_);
    eager.model.dropout = graph.model.dropout = 0.3;
    double seen = 0;
    graph.model.on_forward = [&](const at::Tensor& hidden) { seen += hidden.sum().item<double>(); };
    train(eager, 0, 20, device_);
    train(graph, 0, 20, device_);
    EXPECT_NE(seen, 0);
    EXPECT_TRUE(graph.step->compiled().starts_with("eager: the step cannot be captured: ")) << graph.step->compiled();
    EXPECT_EQ(graph.step->take_losses().size(), 20U);
    for (std::size_t i = 0; i < 2; ++i) {
        EXPECT_TRUE(at::allclose(graph.model.parameters()[i].tensor, eager.model.parameters()[i].tensor, 1e-3, 1e-5));
    }
    GraphTraining after({}, device_);  // the device can capture again
    train(after, 0, 5, device_);
    EXPECT_EQ(after.step->compiled(), "graph");
}

// Both runs draw the same, regardless of earlier draws, and no draw is recorded.
TEST_F(GraphStepCuda, WhatAModelDrawsOnTheHostIsSeededToo) {
    std::vector<double> drawn[2];
    for (std::uint64_t i = 0; i < 2; ++i) {
        at::manual_seed(i);
        auto model = std::make_unique<testing::LinearModel>();
        model->before_forward = [&] { drawn[i].push_back(at::rand({}).item<double>()); };
        Recipe recipe = testing::small_recipe(2);
        recipe.device = device_.str();
        Trainer trainer(recipe, {std::make_shared<testing::SquareDataset>(100), nullptr}, std::move(model));
        drawn[i].clear();  // of the checks before training
        EXPECT_EQ(trainer.fit().compiled, "eager: the step cannot be captured: it draws at random on the host");
    }
    EXPECT_GE(drawn[0].size(), 14U);
    EXPECT_NE(drawn[0][0], drawn[0][1]);
    EXPECT_EQ(drawn[0], drawn[1]);
}

TEST_F(GraphStepCuda, TheMemoryIsCounted) {
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
