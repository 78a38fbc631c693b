// Metrics against slow twins, over batches of several sizes; the figures of scikit-learn were computed with it once.
#include "stoker/train/task/scores.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/one_hot.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "stoker/models/init.h"

namespace stoker {
namespace {

constexpr std::int64_t kSizes[] = {5, 1, 9};

struct Parts {
    at::Tensor outputs;
    at::Tensor target;
};

// Scores of the rows in batches of kSizes, which are 15 together.
Figures figures_of(const Task& task, const Parts& all, bool confusion = false) {
    const auto scores = make_scores(task, at::kCPU, confusion);
    std::int64_t begin = 0;
    for (const std::int64_t size : kSizes) {
        scores->add(all.outputs.narrow(0, begin, size),
                    {.input = all.target.narrow(0, begin, size), .target = all.target.narrow(0, begin, size)});
        begin += size;
    }
    scores->fetch();
    return scores->figures(Group());
}

double metric(const Figures& figures, const std::string& name) {
    for (const Metric& own : figures.metrics) {
        if (own.name == name) {
            return own.value;
        }
    }
    ADD_FAILURE() << "no metric " << name;
    return -1;
}

TEST(Scores, OfAClassification) {
    at::Generator generator = make_generator(1);
    const Parts all{at::randn({15, 7}, generator), at::rand({15}, generator).mul(7).to(at::kLong)};
    const Figures figures = figures_of({.outputs = 7}, all, /*confusion=*/true);
    EXPECT_NEAR(figures.loss, at::cross_entropy_loss(all.outputs, all.target).item<double>(), 1e-6);
    const double correct = all.outputs.argmax(1).eq(all.target).sum().item<double>();
    EXPECT_DOUBLE_EQ(metric(figures, "accuracy"), correct / 15);
    EXPECT_EQ(figures.metrics.size(), 2U);
    EXPECT_EQ(figures.confusion.size(), 49U);
    EXPECT_EQ(figures_of({.outputs = 5}, {all.outputs.narrow(1, 0, 5), all.target.clamp_max(4)}).metrics.size(), 1U);
}

// sklearn.metrics.average_precision_score([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8]), and the same with a tie.
TEST(Scores, AveragePrecisionIsScikitLearns) {
    const std::vector<float> scores = {0.1F, 0.4F, 0.35F, 0.8F};
    const std::vector<std::uint8_t> present = {0, 0, 1, 1};
    EXPECT_NEAR(average_precision(scores, present), 0.8333333333333333, 1e-12);
    const std::vector<float> tied = {0.1F, 0.4F, 0.4F, 0.8F};
    EXPECT_NEAR(average_precision(tied, present), 0.8333333333333333, 1e-12);
    const std::vector<float> all_tied = {0.4F, 0.4F, 0.4F, 0.4F};
    EXPECT_NEAR(average_precision(all_tied, present), 0.5, 1e-12);
    EXPECT_TRUE(std::isnan(average_precision(scores, std::vector<std::uint8_t>(4))));
}

TEST(Scores, OfSeveralLabels) {
    at::Generator generator = make_generator(2);
    const Parts all{at::randn({15, 4}, generator), at::rand({15, 4}, generator).gt(0.6).to(at::kFloat)};
    all.target.select(1, 3).zero_();  // a label that never occurs
    const Figures figures = figures_of({.kind = TaskKind::multilabel, .outputs = 4}, all);
    double macro = 0;
    double sums[3] = {};
    for (std::int64_t k = 0; k < 4; ++k) {
        double counts[3] = {};  // right, wrongly predicted, missed
        for (std::int64_t i = 0; i < 15; ++i) {
            const bool predicted = all.outputs[i][k].item<float>() > 0;
            const bool present = all.target[i][k].item<float>() > 0;
            counts[0] += predicted && present;
            counts[1] += predicted && !present;
            counts[2] += !predicted && present;
        }
        const double both = 2 * counts[0] + counts[1] + counts[2];
        macro += both == 0 ? 0 : 2 * counts[0] / both / 4;
        for (int kind = 0; kind < 3; ++kind) {
            sums[kind] += counts[kind];
        }
    }
    EXPECT_NEAR(metric(figures, "f1_macro"), macro, 1e-12);
    EXPECT_NEAR(metric(figures, "f1_micro"), 2 * sums[0] / (2 * sums[0] + sums[1] + sums[2]), 1e-12);
    double precision = 0;
    for (std::int64_t k = 0; k < 3; ++k) {
        const at::Tensor scores = all.outputs.select(1, k).contiguous();
        const at::Tensor present = all.target.select(1, k).to(at::kByte).contiguous();
        precision +=
            average_precision({scores.const_data_ptr<float>(), 15}, {present.const_data_ptr<std::uint8_t>(), 15}) / 3;
    }
    EXPECT_NEAR(metric(figures, "map"), precision, 1e-12);
    EXPECT_NEAR(
        figures.loss,
        compute_loss(all.outputs, {all.outputs, all.target}, {.kind = LossKind::binary_cross_entropy}).item<double>(),
        1e-6);
}

// Targets far from 0: a sum of squares would have no digit of their spread left.
TEST(Scores, OfNumbers) {
    at::Generator generator = make_generator(3);
    const at::Tensor target = at::randn({15, 2}, generator).add(1e6);
    const Parts all{target.add(at::randn({15, 2}, generator).mul(0.5)), target};
    const Figures figures =
        figures_of({.kind = TaskKind::regression, .outputs = 2, .loss = {.kind = LossKind::mse}}, all);
    const at::Tensor t = target.to(at::kDouble);
    const at::Tensor error = all.outputs.to(at::kDouble).sub(t);
    const at::Tensor spread = t.sub(t.mean(0)).square().sum(0);
    const double r2 = error.square().sum(0).div(spread).neg().add(1).mean().item<double>();
    EXPECT_NEAR(metric(figures, "mae"), error.abs().mean().item<double>(), 1e-9);
    EXPECT_NEAR(metric(figures, "rmse"), error.square().mean(0).sqrt().mean().item<double>(), 1e-9);
    EXPECT_NEAR(metric(figures, "r2"), r2, 1e-9);
    EXPECT_NEAR(figures.loss, error.square().mean().item<double>(), 1e-5);
    EXPECT_FALSE(figures.metrics.front().higher_is_better);
}

TEST(Scores, OfMasks) {
    at::Generator generator = make_generator(4);
    constexpr std::int64_t kClasses = 3;
    const at::Tensor drawn = at::rand({15, 4, 5}, generator).mul(kClasses).to(at::kLong);
    const at::Tensor mask = drawn.masked_fill(at::rand({15, 4, 5}, generator).lt(0.2), 255);
    const Parts all{at::randn({15, kClasses, 4, 5}, generator), mask};
    const Task task{.kind = TaskKind::segmentation, .outputs = kClasses, .loss = {.ignore_index = 255}};
    const Figures figures = figures_of(task, all);
    const at::Tensor predicted = all.outputs.argmax(1);
    const at::Tensor counted = mask.ne(255);
    double iou = 0;
    for (std::int64_t c = 0; c < kClasses; ++c) {
        const at::Tensor in_mask = mask.eq(c);
        const at::Tensor in_outputs = predicted.eq(c).logical_and(counted);
        iou += in_mask.logical_and(in_outputs).sum().item<double>() /
               in_mask.logical_or(in_outputs).sum().item<double>() / kClasses;
    }
    EXPECT_NEAR(metric(figures, "mean_iou"), iou, 1e-12);
    EXPECT_NEAR(metric(figures, "pixel_accuracy"),
                predicted.eq(mask).sum().item<double>() / counted.sum().item<double>(), 1e-12);
    EXPECT_NEAR(figures.loss, compute_loss(all.outputs, {mask, mask}, task.loss).item<double>(), 1e-6);
}

TEST(Scores, OfTokens) {
    at::Generator generator = make_generator(5);
    const at::Tensor drawn = at::rand({15, 6}, generator).mul(4).to(at::kLong);
    const at::Tensor next = drawn.masked_fill(at::rand({15, 6}, generator).lt(0.3), -100);
    const Parts all{at::randn({15, 6, 4}, generator), next};
    const Figures figures = figures_of({.kind = TaskKind::language, .outputs = 4}, all);
    EXPECT_NEAR(figures.loss, compute_loss(all.outputs, {next, next}, {}).item<double>(), 1e-6);
    EXPECT_NEAR(metric(figures, "perplexity"), std::exp(figures.loss), 1e-9);
    EXPECT_NEAR(metric(figures, "token_accuracy"),
                all.outputs.argmax(2).eq(next).sum().item<double>() / next.ne(-100).sum().item<double>(), 1e-12);
}

// A class of the model may be the ignored one, such as the background of masks, or token 0, which fills sentences up.
// The model predicts it all the same.
TEST(Scores, AnIgnoredClassOfTheModelIsNotCounted) {
    at::Generator generator = make_generator(7);
    const at::Tensor mask = at::rand({15, 4, 5}, generator).mul(3).to(at::kLong);
    const at::Tensor outputs = at::randn({15, 3, 4, 5}, generator);
    const Figures pixels =
        figures_of({.kind = TaskKind::segmentation, .outputs = 3, .loss = {.ignore_index = 0}}, {outputs, mask});
    const at::Tensor predicted = outputs.argmax(1);
    const at::Tensor counted = mask.ne(0);
    double iou = 0;
    for (std::int64_t c = 1; c < 3; ++c) {
        const at::Tensor in_mask = mask.eq(c);
        const at::Tensor in_outputs = predicted.eq(c).logical_and(counted);
        iou += in_mask.logical_and(in_outputs).sum().item<double>() /
               in_mask.logical_or(in_outputs).sum().item<double>() / 2;
    }
    EXPECT_NEAR(metric(pixels, "mean_iou"), iou, 1e-12);
    const at::Tensor next = at::rand({15, 6}, generator).mul(4).to(at::kLong);
    const at::Tensor logits = at::randn({15, 6, 4}, generator);
    const Figures tokens =
        figures_of({.kind = TaskKind::language, .outputs = 4, .loss = {.ignore_index = 0}}, {logits, next});
    const at::Tensor right = logits.argmax(2).eq(next).logical_and(next.ne(0));
    EXPECT_NEAR(metric(tokens, "token_accuracy"), right.sum().item<double>() / next.ne(0).sum().item<double>(), 1e-12);
}

TEST(Scores, OfALossOfOnesOwnAreMeansOverSamples) {
    at::Generator generator = make_generator(6);
    const Parts all{at::randn({15, 2}, generator), at::rand({15}, generator)};
    const Task task{.kind = TaskKind::custom,
                    .loss = {.function = [](const at::Tensor& outputs, const DeviceBatch&) { return outputs.mean(); }},
                    .metrics = {{.name = "off",
                                 .function =
                                     [](const at::Tensor& outputs, const DeviceBatch& batch) {
                                         return outputs.select(1, 0).sub(batch.target).abs();  // (N)
                                     },
                                 .higher_is_better = false}}};
    const Figures figures = figures_of(task, all);
    EXPECT_NEAR(figures.loss, all.outputs.mean().item<double>(), 1e-6);
    EXPECT_NEAR(metric(figures, "off"), all.outputs.select(1, 0).sub(all.target).abs().mean().item<double>(), 1e-6);
    EXPECT_FALSE(figures.metrics.front().higher_is_better);
    EXPECT_EQ(metrics_of(task).size(), 1U);
}

}  // namespace
}  // namespace stoker
