// Copies of a model train as the model alone does. The devices are CPUs.
#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <tuple>

#include "stoker/models/init.h"
#include "stoker/train/step/step.h"
#include "train/support.h"

namespace stoker {
namespace {

using testing::LinearModel;

const at::Device kHost = at::kCPU;

DeviceBatch batch_of(std::int64_t samples, std::uint64_t seed) {
    at::Generator generator = make_generator(seed);
    return {.input = at::randn({samples, 1, 4, 4}, generator), .target = at::arange(samples, at::kLong).remainder(4)};
}

std::vector<std::unique_ptr<Model>> copies(std::size_t count) {
    std::vector<std::unique_ptr<Model>> models;
    for (std::size_t i = 0; i < count; ++i) {
        models.push_back(std::make_unique<LinearModel>());
        for (const NamedTensor& parameter : models.back()->parameters()) {
            parameter.tensor.detach().fill_(9);  // the step sets them
        }
    }
    return models;
}

OptimizerRecipe sgd() {
    return {.name = "sgd", .lr = 0.1, .momentum = 0.9};
}

class ReplicatedStep : public ::testing::TestWithParam<std::tuple<std::int64_t, std::int64_t>> {};

TEST_P(ReplicatedStep, TrainsAsTheModelAlone) {
    const auto [samples, accumulate] = GetParam();
    LinearModel alone;
    LinearModel shared;
    const auto replicas = copies(2);
    Optimizer alones(alone.trainable_parameters(), sgd());
    Optimizer shareds(shared.trainable_parameters(), sgd());
    Account account;
    const StepOptions options = {.accumulate = accumulate, .clip_norm = 0.5, .ema = 0.9};
    const auto reference = make_step({alone, alones, account, kHost, options});
    const auto step = make_step({shared, shareds, account, kHost, options, {}, replicas});
    for (std::uint64_t i = 0; i < 4; ++i) {
        reference->run(batch_of(samples, i), 0.1);
        step->run(batch_of(samples, i), 0.1);
    }
    EXPECT_TRUE(at::allclose(alone.parameters()[0].tensor, shared.parameters()[0].tensor, 1e-5, 1e-6));
    const std::vector<double> expected = reference->take_losses();
    const std::vector<double> losses = step->take_losses();
    ASSERT_EQ(losses.size(), expected.size());
    for (std::size_t i = 0; i < losses.size(); ++i) {
        EXPECT_NEAR(losses[i], expected[i], 1e-5);
    }
    EXPECT_FALSE(replicas[0]->parameters()[0].tensor.grad().defined());
}

// 2 samples are fewer than the 3 devices.
INSTANTIATE_TEST_SUITE_P(Sizes, ReplicatedStep, ::testing::Combine(::testing::Values(2, 10), ::testing::Values(1, 2)));

TEST(ReplicatedSteps, AnErrorOfACopyReachesTheCaller) {
    LinearModel model;
    const auto replicas = copies(1);
    dynamic_cast<LinearModel&>(*replicas[0]).before_forward = [] { throw std::runtime_error("the copy's"); };
    Optimizer optimizer(model.trainable_parameters(), sgd());
    Account account;
    const auto step = make_step({model, optimizer, account, kHost, {}, {}, replicas});
    EXPECT_THROW(step->run(batch_of(4, 1), 0.1), std::runtime_error);
    LinearModel fresh;
    Optimizer other(fresh.trainable_parameters(), sgd());
    dynamic_cast<LinearModel&>(*replicas[0]).before_forward = nullptr;
    optimizer.zero_grad();
    step->run(batch_of(4, 2), 0.1);
    make_step({fresh, other, account, kHost})->run(batch_of(4, 2), 0.1);
    EXPECT_TRUE(at::allclose(model.parameters()[0].tensor, fresh.parameters()[0].tensor, 1e-5, 1e-6));
}

TEST(ReplicatedSteps, BuffersAreThoseOfTheModelBeforeThePass) {
    LinearModel model;
    const at::Tensor count = at::arange(3, at::kFloat);
    model.add_buffer("count", count);
    model.before_forward = [&] { count.add_(1); };
    auto replicas = copies(1);
    dynamic_cast<LinearModel&>(*replicas[0]).add_buffer("count", at::zeros({3}));
    Optimizer optimizer(model.trainable_parameters(), sgd());
    Account account;
    make_step({model, optimizer, account, kHost, {}, {}, replicas})->run(batch_of(4, 1), 0.1);
    EXPECT_TRUE(replicas[0]->buffers()[0].tensor.equal(at::arange(3, at::kFloat)));
}

}  // namespace
}  // namespace stoker
