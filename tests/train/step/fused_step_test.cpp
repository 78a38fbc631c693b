// The fused step compared with the eager step: weights, losses and the optimiser's state for every optimiser and
// activation; and the cases in which it is not used.
#include "stoker/train/step/fused_step.h"

#include <ATen/Parallel.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <iterator>

#include "stoker/base/error.h"
#include "stoker/models/init.h"
#include "stoker/models/mlp.h"
#include "stoker/train/step/step.h"
#include "train/support.h"

namespace stoker {
namespace {

const at::Device kCpu(at::kCPU);

struct FusedTraining {
    FusedTraining(const OptimizerRecipe& recipe, const StepOptions& options, Activation activation = Activation::relu,
                  OptimizerKernel kernel = OptimizerKernel::fused)
        : generator(make_generator(3)),
          model(16, {24, 8}, 4, activation, generator),
          optimizer(model.parameters(), recipe, kernel),
          step(make_step({model, optimizer, account, kCpu, options})) {
        at::set_num_threads(1);
    }

    at::Generator generator;
    Mlp model;
    Optimizer optimizer;
    Account account;
    std::unique_ptr<Step> step;
};

DeviceBatch batch_of(std::int64_t samples, std::uint64_t seed) {
    at::Generator generator = make_generator(seed);
    return {.input = at::randn({samples, 1, 4, 4}, generator), .target = at::arange(samples, at::kLong).remainder(4)};
}

void expect_alike(const std::vector<NamedTensor>& a, const std::vector<NamedTensor>& b) {
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < a.size(); ++i) {
        EXPECT_TRUE(at::allclose(a[i].tensor, b[i].tensor, 1e-4, 2e-6)) << a[i].name;
    }
}

const std::vector<OptimizerRecipe> kOptimizers = {
    {.name = "sgd", .lr = 0.1},
    {.name = "sgd", .lr = 0.05, .momentum = 0.9, .weight_decay = 1e-2},
    {.name = "sgd", .lr = 0.05, .momentum = 0.9, .nesterov = true},
    {.name = "adam", .lr = 1e-2, .weight_decay = 1e-2},
    {.name = "adamw", .lr = 1e-2, .beta1 = 0.8, .beta2 = 0.95, .eps = 1e-6, .weight_decay = 0.1},
};

TEST(FusedStep, IsTheEagerStep) {
    for (const OptimizerRecipe& recipe : kOptimizers) {
        for (const Activation activation : {Activation::relu, Activation::gelu, Activation::tanh}) {
            SCOPED_TRACE(recipe.name + " " + std::to_string(static_cast<int>(activation)));
            const StepOptions options{.loss = {.label_smoothing = 0.1}, .ema = 0.9};
            StepOptions eager_options = options;
            eager_options.compile = false;
            FusedTraining fused(recipe, options, activation);
            FusedTraining eager(recipe, eager_options, activation);
            ASSERT_EQ(fused.step->compiled(), "fused");
            ASSERT_NE(eager.step->compiled(), "fused");
            for (std::uint64_t i = 0; i < 20; ++i) {
                const DeviceBatch batch = batch_of(i % 7 == 6 ? 5 : 70, i);
                const double lr = recipe.lr / static_cast<double>(1 + i % 3);
                fused.step->run(batch, lr);
                eager.step->run(batch, lr);
            }
            const std::vector<double> losses = fused.step->take_losses();
            const std::vector<double> expected = eager.step->take_losses();
            ASSERT_EQ(losses.size(), 20U);
            for (std::size_t i = 0; i < losses.size(); ++i) {
                EXPECT_NEAR(losses[i], expected[i], 1e-5);
            }
            expect_alike(fused.model.state(), eager.model.state());
            expect_alike(fused.optimizer.state(), eager.optimizer.state());
            expect_alike(fused.step->ema().state(), eager.step->ema().state());
            EXPECT_EQ(fused.account.take_record().times[static_cast<std::size_t>(Phase::forward)].count(), 0);
        }
    }
}

std::ptrdiff_t threads_of_process() {
    return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
}

// `stoker tune` measures a step with one number of threads after the other.
TEST(FusedStep, FollowsTheNumberOfThreads) {
    at::Generator generator = make_generator(3);
    Mlp model(256, {512}, 4, Activation::relu, generator);
    Optimizer optimizer(model.parameters(), kOptimizers.front(), OptimizerKernel::fused);
    Account account;
    const std::unique_ptr<Step> step = make_step({model, optimizer, account, kCpu, {}});
    ASSERT_EQ(step->compiled(), "fused");
    const DeviceBatch batch{.input = at::randn({64, 1, 16, 16}, generator),
                            .target = at::arange(64, at::kLong).remainder(4)};
    std::vector<std::ptrdiff_t> threads;
    for (const int count : {1, 3, 1, 2}) {
        at::set_num_threads(count);
        step->run(batch, 0.1);
        threads.push_back(threads_of_process());
    }
    at::set_num_threads(1);
    EXPECT_EQ(threads[1], threads[0] + 2);
    EXPECT_EQ(threads[2], threads[0]);
    EXPECT_EQ(threads[3], threads[0] + 1);
}

// A run may switch between the two: ten eager steps and ten fused ones equal twenty fused steps.
TEST(FusedStep, ContinuesFromTheEagerStep) {
    for (const OptimizerRecipe& recipe : kOptimizers) {
        SCOPED_TRACE(recipe.name);
        FusedTraining whole(recipe, {});
        FusedTraining first(recipe, {.compile = false});
        FusedTraining second(recipe, {});
        for (std::uint64_t i = 0; i < 20; ++i) {
            whole.step->run(batch_of(32, i), 0.01);
            if (i == 10) {
                second.model.load(first.model.state());
                second.optimizer.load(first.optimizer.state());
            }
            (i < 10 ? first : second).step->run(batch_of(32, i), 0.01);
        }
        expect_alike(second.model.state(), whole.model.state());
        expect_alike(second.optimizer.state(), whole.optimizer.state());
    }
}

// Exchanging weights and their average gives parameters other memory.
TEST(FusedStep, FollowsAParameterToOtherMemory) {
    FusedTraining training(kOptimizers[1], {});
    FusedTraining moved(kOptimizers[1], {});
    for (std::uint64_t i = 0; i < 4; ++i) {
        if (i == 2) {
            for (const NamedTensor& parameter : moved.model.parameters()) {
                at::Tensor tensor = parameter.tensor;
                tensor.set_data(tensor.detach().clone());
            }
        }
        training.step->run(batch_of(32, i), 0.1);
        moved.step->run(batch_of(32, i), 0.1);
    }
    for (std::size_t i = 0; i < training.model.parameters().size(); ++i) {
        EXPECT_TRUE(at::equal(training.model.parameters()[i].tensor, moved.model.parameters()[i].tensor));
    }
}

TEST(FusedStep, RefusesImagesOfAnotherSize) {
    FusedTraining training(kOptimizers[0], {});
    at::Generator generator = make_generator(1);
    EXPECT_THROW(
        training.step->run({.input = at::randn({4, 1, 5, 5}, generator), .target = at::arange(4, at::kLong)}, 0.1),
        InvalidArgument);
}

TEST(FusedStep, IsNotUsedWhereItsResultWouldDiffer) {
    const OptimizerRecipe& adam = kOptimizers[3];
    OptimizerRecipe some = adam;
    some.no_decay = {"norms_and_biases"};
    EXPECT_NE(FusedTraining(some, {}).step->compiled(), "fused");
    some.weight_decay = 0;
    EXPECT_EQ(FusedTraining(some, {}).step->compiled(), "fused");
    EXPECT_NE(FusedTraining(adam, {.compile = false}).step->compiled(), "fused");
    EXPECT_NE(FusedTraining(adam, {.accumulate = 2}).step->compiled(), "fused");
    EXPECT_NE(FusedTraining(adam, {.clip_norm = 1}).step->compiled(), "fused");
    EXPECT_NE(FusedTraining(adam, {.clip_value = 1}).step->compiled(), "fused");
    EXPECT_NE(FusedTraining(adam, {.precision = {.autocast = at::kBFloat16}}).step->compiled(), "fused");
    EXPECT_NE(FusedTraining(adam, {.precision = {.loss_scaling = true}}).step->compiled(), "fused");
    EXPECT_NE(FusedTraining(adam, {}, Activation::relu, OptimizerKernel::single_tensor).step->compiled(), "fused");
    testing::LinearModel other;
    Optimizer optimizer(other.parameters(), adam);
    Account account;
    EXPECT_NE(make_step({other, optimizer, account, kCpu})->compiled(), "fused");
}

}  // namespace
}  // namespace stoker
