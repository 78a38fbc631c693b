// The parts of a step together: too little memory, loss scaling with overflows, clipping compared with its definition,
// averages that can be swapped in and out.
#include "stoker/train/step/step.h"

#include <ATen/Context.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <cmath>

#include "stoker/bridge/torch_error.h"
#include "stoker/models/init.h"
#include "stoker/train/step/clip.h"
#include "train/step/step_kinds.h"
#include "train/support.h"

namespace stoker {
namespace {

using testing::eager;
using testing::LinearModel;

const at::Device kHost = at::kCPU;

DeviceBatch step_batch(std::int64_t samples, std::uint64_t seed) {
    at::Generator generator = make_generator(seed);
    return {.input = at::randn({samples, 1, 4, 4}, generator), .target = at::arange(samples, at::kLong).remainder(4)};
}

OptimizerRecipe sgd() {
    return {.name = "sgd", .lr = 0.1, .momentum = 0.9};
}

// Allocates more memory than any machine has.
void ask_for_too_much() {
    at::empty({std::int64_t{1} << 50}, at::kByte);
}

// A model with batch norm, which changes in a forward pass, and dropout, which draws. From pass `fails_at` on, memory
// runs out after both for batches of more than `most` samples.
class FullModel final : public Model {
  public:
    FullModel() {
        at::Generator generator = make_generator(1);
        first_ = parameter("first", default_uniform({8, 16}, 16, generator));
        second_ = parameter("second", default_uniform({4, 8}, 8, generator));
        mean_ = buffer("mean", at::zeros({8}));
        variance_ = buffer("variance", at::ones({8}));
        batches_ = buffer("batches", at::zeros({}, at::kLong));
    }
    at::Tensor forward(const at::Tensor& input) override {
        batches_.add_(1);
        at::Tensor hidden = at::linear(input.flatten(1), first_);  // (N, 8)
        hidden = at::batch_norm(hidden, {}, {}, mean_, variance_, training(), 0.1, 1e-5, false);
        hidden = at::dropout(hidden, 0.5, training());
        if (passes++ >= fails_at && input.size(0) > most) {
            ask_for_too_much();
        }
        return at::linear(hidden, second_);
    }

    std::int64_t passes = 0;
    std::int64_t fails_at = 0;
    std::int64_t most = 1000;

  private:
    at::Tensor first_;
    at::Tensor second_;
    at::Tensor mean_;
    at::Tensor variance_;
    at::Tensor batches_;
};

// A model with its optimiser and step.
template <typename TrainedModel>
struct TrainingOf {
    explicit TrainingOf(const StepOptions& options = {})
        : optimizer(model.parameters(), sgd()), step(make_step({model, optimizer, account, kHost, options})) {}

    at::Tensor weight() const { return model.parameters()[0].tensor.detach().clone(); }

    TrainedModel model;
    Optimizer optimizer;
    Account account;
    std::unique_ptr<Step> step;
};
using StepTraining = TrainingOf<LinearModel>;

TEST(Step, TooLittleMemorySplitsTheBatchAndTrainsTheSame) {
    StepTraining whole;
    StepTraining split;
    int failures = 0;
    eager(*split.step).before_forward = [&](std::int64_t samples) {
        if (samples > 4) {
            ++failures;
            ask_for_too_much();
        }
    };
    for (std::uint64_t i = 0; i < 5; ++i) {
        const DeviceBatch batch = step_batch(i == 4 ? 3 : 18, i);  // the last one is small
        whole.step->run(batch, 0.1);
        split.step->run(batch, 0.1);
        EXPECT_TRUE(at::allclose(whole.weight(), split.weight(), 1e-5, 1e-6)) << i;
    }
    EXPECT_EQ(split.step->accumulate(), 8);
    EXPECT_EQ(failures, 3);  // with 1, 2 and 4 parts; later steps keep 8
    const std::vector<double> expected = whole.step->take_losses();
    const std::vector<double> losses = split.step->take_losses();
    ASSERT_EQ(losses.size(), 5U);
    for (std::size_t i = 0; i < losses.size(); ++i) {
        EXPECT_NEAR(losses[i], expected[i], 1e-6);
    }
}

// Equal to the last bit: weights, statistics, losses and the next random numbers.
TEST(Step, AfterRunningOutOfMemoryItIsTheStepOfMoreMicroBatches) {
    TrainingOf<FullModel> retried({.accumulate = 2, .ema = 0.9});
    TrainingOf<FullModel> fitting({.accumulate = 8, .ema = 0.9});
    retried.model.most = 4;
    retried.model.fails_at = 1;  // by then the first micro-batch has changed statistics and drawn
    for (std::uint64_t i = 0; i < 3; ++i) {
        const DeviceBatch batch = step_batch(32, i);
        at::manual_seed(i);
        fitting.step->run(batch, 0.1);
        const at::Tensor next = at::randn({4});
        at::manual_seed(i);
        retried.step->run(batch, 0.1);
        EXPECT_TRUE(at::equal(at::randn({4}), next)) << i;
    }
    EXPECT_EQ(retried.step->accumulate(), 8);
    EXPECT_EQ(retried.model.passes, 2 + 1 + 3 * 8);
    EXPECT_EQ(retried.step->take_losses(), fitting.step->take_losses());
    EXPECT_TRUE(testing::same_weights(retried.model.state(), fitting.model.state()));
    EXPECT_TRUE(testing::same_weights(retried.step->ema().state(), fitting.step->ema().state()));
}

TEST(Step, ASampleThatDoesNotFitIsAnErrorAndChangesNothing) {
    TrainingOf<FullModel> training;
    TrainingOf<FullModel> untouched;
    training.model.most = 0;
    at::manual_seed(1);
    const at::Tensor next = at::randn({4});
    at::manual_seed(1);
    try {
        training.step->run(step_batch(6, 1), 0.1);
        ADD_FAILURE() << "nothing was thrown";
    } catch (const std::exception& error) {
        EXPECT_TRUE(is_out_of_memory(error)) << error.what();
    }
    EXPECT_TRUE(testing::same_weights(training.model.state(), untouched.model.state()));
    EXPECT_TRUE(training.optimizer.gradients().empty());
    EXPECT_TRUE(at::equal(at::randn({4}), next));
    EXPECT_TRUE(training.step->take_losses().empty());
}

TEST(Step, OtherErrorsAreNotRetried) {
    StepTraining training;
    int passes = 0;
    eager(*training.step).before_forward = [&](std::int64_t) {
        ++passes;
        C10_THROW_ERROR(ValueError, "something else");
    };
    EXPECT_THROW(training.step->run(step_batch(6, 1), 0.1), c10::ValueError);
    EXPECT_EQ(passes, 1);
}

// cuDNN's search takes seconds for each shape.
TEST(Step, CudnnSearchesForWholeBatchesOnly) {
    LinearModel model;
    std::vector<bool> searched;
    model.before_forward = [&] { searched.push_back(at::globalContext().benchmarkCuDNN()); };
    Optimizer optimizer(model.parameters(), sgd());
    Account account;
    const std::unique_ptr<Step> step = make_step({model, optimizer, account, kHost, {.cudnn_benchmark = true}});
    for (const std::int64_t samples : {8, 8, 3, 8}) {
        step->run(step_batch(samples, 1), 0.1);
        EXPECT_FALSE(at::globalContext().benchmarkCuDNN());
    }
    EXPECT_EQ(searched, (std::vector<bool>{true, true, false, true}));
}

TEST(Step, LossesAreFetchedBeforeTheirTensorIsFull) {
    StepTraining training;
    for (std::uint64_t i = 0; i < 600; ++i) {
        training.step->run(step_batch(2, i), 1e-3);
    }
    EXPECT_EQ(training.step->take_losses().size(), 600U);
    EXPECT_TRUE(training.step->take_losses().empty());
}

// 200 steps, a fifth of them with overflows, compared with the rule of torch.amp.GradScaler.
TEST(Step, OverflowsAreSkippedAndChangeTheScale) {
    const ScalerOptions options{.initial_scale = 1024, .growth_interval = 7};
    StepTraining scaled({.precision = {.loss_scaling = true}, .scaler = options});
    StepTraining plain;
    double scale = options.initial_scale;
    int since = 0;
    for (std::uint64_t i = 0; i < 200; ++i) {
        DeviceBatch batch = step_batch(8, i);
        const bool overflow = i % 5 == 3 || (i > 60 && i < 66);
        const at::Tensor before = scaled.weight();
        if (overflow) {
            batch.input.fill_(std::numeric_limits<float>::infinity());
        }
        EXPECT_EQ(scaled.step->scaler().scale().item<double>(), scale) << i;
        scaled.step->run(batch, 0.05);
        if (overflow) {
            EXPECT_TRUE(at::equal(scaled.weight(), before)) << i;
            scale *= 0.5;
            since = 0;
        } else {
            plain.step->run(batch, 0.05);
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

TEST(Ema, SwappingTwiceChangesNothing) {
    StepTraining training({.ema = 0.5});
    training.model.add_buffer("mean", at::full({2}, 4.0));
    Ema ema(training.model, 0.5);
    const at::Tensor start = training.weight();
    training.step->run(step_batch(8, 1), 0.1);
    ema.update();
    const at::Tensor trained = training.weight();
    const at::Tensor expected = start.lerp(trained, 0.5);
    {
        const AveragedWeights averaged(ema);
        EXPECT_TRUE(at::allclose(training.weight(), expected));
    }
    EXPECT_TRUE(at::equal(training.weight(), trained));
    training.step->run(step_batch(8, 2), 0.1);  // the optimiser still updates the model's own weights
    EXPECT_FALSE(at::equal(training.weight(), trained));
    EXPECT_TRUE(at::allclose(ema.state()[0].tensor, expected));
    EXPECT_EQ(ema.state()[1].name, "mean");
}

}  // namespace
}  // namespace stoker
