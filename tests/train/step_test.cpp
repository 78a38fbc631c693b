// The step's parts put together: memory that is too small, loss scaling with overflows, clipping beside its readable
// twin, averages that can be swapped in and out.
#include "stoker/train/step.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros_like.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <cmath>

#include "stoker/train/clip.h"
#include "train/support.h"

namespace stoker {
namespace {

using testing::LinearModel;

const at::Device kCpu = at::kCPU;

DeviceBatch batch_of(std::int64_t samples, std::uint64_t seed) {
    at::Generator generator = make_generator(seed);
    return {.image = at::randn({samples, 1, 4, 4}, generator), .label = at::arange(samples, at::kLong).remainder(4)};
}

OptimizerRecipe sgd() {
    return {.name = "sgd", .lr = 0.1, .momentum = 0.9};
}

// One model with all that trains it.
struct Training {
    explicit Training(const StepOptions& options = {})
        : optimizer(model.parameters(), sgd()), step(model, optimizer, account, kCpu, options) {}

    at::Tensor weight() const { return model.parameters()[0].tensor.detach().clone(); }

    LinearModel model;
    Optimizer optimizer;
    Account account;
    Step step;
};

TEST(Step, MemoryThatIsTooSmallSplitsTheBatchAndLearnsTheSame) {
    Training whole;
    Training split;
    int failures = 0;
    split.step.before_forward = [&](std::int64_t samples) {
        if (samples > 4) {
            ++failures;
            C10_THROW_ERROR(OutOfMemoryError, "a test's memory is full");
        }
    };
    for (std::uint64_t i = 0; i < 5; ++i) {
        const DeviceBatch batch = batch_of(i == 4 ? 3 : 18, i);  // the last one is small
        whole.step.run(batch, 0.1);
        split.step.run(batch, 0.1);
        EXPECT_TRUE(at::allclose(whole.weight(), split.weight(), 1e-5, 1e-6)) << i;
    }
    EXPECT_EQ(split.step.accumulate(), 8);
    EXPECT_EQ(failures, 3);  // of 1, 2 and 4 parts; what was found is kept
    const std::vector<double> expected = whole.step.take_losses();
    const std::vector<double> losses = split.step.take_losses();
    ASSERT_EQ(losses.size(), 5U);
    for (std::size_t i = 0; i < losses.size(); ++i) {
        EXPECT_NEAR(losses[i], expected[i], 1e-6);
    }
}

TEST(Step, ASampleThatIsTooMuchIsAnError) {
    Training training;
    const at::Tensor before = training.weight();
    training.step.before_forward = [](std::int64_t) { C10_THROW_ERROR(OutOfMemoryError, "full"); };
    EXPECT_THROW(training.step.run(batch_of(6, 1), 0.1), c10::OutOfMemoryError);
    EXPECT_TRUE(at::equal(training.weight(), before));
    EXPECT_TRUE(training.step.take_losses().empty());
}

TEST(Step, LossesAreFetchedBeforeTheDevicesRoomIsFull) {
    Training training;
    for (std::uint64_t i = 0; i < 600; ++i) {
        training.step.run(batch_of(2, i), 1e-3);
    }
    EXPECT_EQ(training.step.take_losses().size(), 600U);
    EXPECT_TRUE(training.step.take_losses().empty());
}

// 200 steps, a fifth of which overflow, beside the rule of torch.amp.GradScaler written out.
TEST(Step, OverflowsAreLeftOutAndMoveTheScale) {
    const ScalerOptions options{.initial_scale = 1024, .growth_interval = 7};
    Training scaled({.precision = {.loss_scaling = true}, .scaler = options});
    Training plain;
    double scale = options.initial_scale;
    int since = 0;
    for (std::uint64_t i = 0; i < 200; ++i) {
        DeviceBatch batch = batch_of(8, i);
        const bool overflow = i % 5 == 3 || (i > 60 && i < 66);
        const at::Tensor before = scaled.weight();
        if (overflow) {
            batch.image.fill_(std::numeric_limits<float>::infinity());
        }
        EXPECT_EQ(scaled.step.scaler()->scale().item<double>(), scale) << i;
        scaled.step.run(batch, 0.05);
        if (overflow) {
            EXPECT_TRUE(at::equal(scaled.weight(), before)) << i;
            scale *= 0.5;
            since = 0;
        } else {
            plain.step.run(batch, 0.05);
            EXPECT_TRUE(at::allclose(scaled.weight(), plain.weight(), 1e-5, 1e-7)) << i;
            if (++since == options.growth_interval) {
                scale *= 2;
                since = 0;
            }
        }
    }
    EXPECT_NE(scale, options.initial_scale);
}

TEST(Clip, NormAndValueAreTheirDefinitions) {
    at::Generator generator = make_generator(3);
    for (const double limit : {0.01, 1.0, 100.0}) {
        const std::vector<at::Tensor> given = {at::randn({7, 5}, generator), at::randn({3}, generator)};
        std::vector<at::Tensor> by_norm = {given[0].clone(), given[1].clone()};
        std::vector<at::Tensor> by_value = {given[0].clone(), given[1].clone()};
        double sum = 0;
        for (const at::Tensor& tensor : given) {
            sum += tensor.to(at::kDouble).square().sum().item<double>();
        }
        EXPECT_NEAR(clip_norm(by_norm, limit).item<double>(), std::sqrt(sum), 1e-5);
        clip_value(by_value, limit);
        const double factor = std::min(limit / (std::sqrt(sum) + 1e-6), 1.0);
        for (std::size_t i = 0; i < given.size(); ++i) {
            EXPECT_TRUE(at::allclose(by_norm[i], given[i].mul(factor), 1e-5, 1e-8)) << limit;
            EXPECT_TRUE(at::equal(by_value[i], given[i].clamp(-limit, limit))) << limit;
        }
    }
}

TEST(Ema, SwappedTwiceIsNothing) {
    Training training({.ema = 0.5});
    training.model.add_buffer("mean", at::full({2}, 4.0));
    Ema ema(training.model, 0.5);
    const at::Tensor start = training.weight();
    training.step.run(batch_of(8, 1), 0.1);
    ema.update();
    const at::Tensor trained = training.weight();
    const at::Tensor expected = start.lerp(trained, 0.5);
    {
        const AveragedWeights averaged(&ema);
        EXPECT_TRUE(at::allclose(training.weight(), expected));
    }
    EXPECT_TRUE(at::equal(training.weight(), trained));
    training.step.run(batch_of(8, 2), 0.1);  // the optimiser still moves the model's own weights
    EXPECT_FALSE(at::equal(training.weight(), trained));
    EXPECT_TRUE(at::allclose(ema.state()[0].tensor, expected));
    EXPECT_EQ(ema.state()[1].name, "mean");
}

}  // namespace
}  // namespace stoker
