// The losses against their definitions, written out in plain loops. tests/python/test_tasks.py compares with torch.nn.
#include "stoker/models/loss.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/full.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <cmath>

#include "stoker/base/error.h"
#include "stoker/models/init.h"

namespace stoker {
namespace {

constexpr std::int64_t kClasses = 4;

double value_of(const at::Tensor& outputs, const at::Tensor& target, const LossOptions& options) {
    return compute_loss(outputs, {.input = outputs, .target = target}, options).item<double>();
}

// -log of the probability of each row's class; rows (N, K).
std::vector<double> entropies(const at::Tensor& rows, const at::Tensor& classes) {
    std::vector<double> all;
    for (std::int64_t i = 0; i < rows.size(0); ++i) {
        double sum = 0;
        for (std::int64_t k = 0; k < rows.size(1); ++k) {
            sum += std::exp(rows[i][k].item<double>());
        }
        const auto own = std::clamp<std::int64_t>(classes[i].item<std::int64_t>(), 0, rows.size(1) - 1);
        all.push_back(std::log(sum) - rows[i][own].item<double>());
    }
    return all;
}

// The weighted mean over the rows that are not ignored.
double mean_entropy(const at::Tensor& rows, const at::Tensor& classes, std::int64_t ignored,
                    const std::vector<double>& weights, double gamma) {
    const std::vector<double> entropy = entropies(rows, classes);
    double sum = 0;
    double all = 0;
    for (std::size_t i = 0; i < entropy.size(); ++i) {
        const auto own = classes[static_cast<std::int64_t>(i)].item<std::int64_t>();
        if (own != ignored) {
            const double weight = weights.empty() ? 1 : weights[static_cast<std::size_t>(own)];
            sum += weight * std::pow(1 - std::exp(-entropy[i]), gamma) * entropy[i];
            all += weight;
        }
    }
    return sum / all;
}

struct Drawn {
    at::Generator generator = make_generator(3);
    at::Tensor outputs = at::randn({6, kClasses}, generator);
    at::Tensor classes = at::tensor({0, 3, 1, 1, 2, 0}, at::kLong);
};

TEST(Loss, CrossEntropyWithWeightsAndGamma) {
    const Drawn drawn;
    const std::vector<double> weights = {0.5, 2, 1, 3};
    const at::Tensor weight = at::tensor(weights).to(at::kFloat);
    EXPECT_NEAR(value_of(drawn.outputs, drawn.classes, {}), mean_entropy(drawn.outputs, drawn.classes, -100, {}, 0),
                1e-6);
    EXPECT_NEAR(value_of(drawn.outputs, drawn.classes, {.weight = weight}),
                mean_entropy(drawn.outputs, drawn.classes, -100, weights, 0), 1e-6);
    EXPECT_NEAR(value_of(drawn.outputs, drawn.classes, {.focal_gamma = 2, .weight = weight, .ignore_index = 1}),
                mean_entropy(drawn.outputs, drawn.classes, 1, weights, 2), 1e-6);
    EXPECT_TRUE(LossOptions{.label_smoothing = 0.1}.plain());
    EXPECT_FALSE(LossOptions{.weight = weight}.plain());
    EXPECT_FALSE(LossOptions{.focal_gamma = 2}.plain());
}

TEST(Loss, PixelsAndTokensAreClassifiedOneByOne) {
    Drawn drawn;
    const at::Tensor pixels = at::randn({2, kClasses, 3, 5}, drawn.generator);
    const at::Tensor mask = at::rand({2, 3, 5}, drawn.generator).mul(kClasses + 1).to(at::kLong);
    const at::Tensor with_void = mask.masked_fill(mask.eq(kClasses), 255);
    ASSERT_GT(with_void.eq(255).sum().item<int>(), 0);
    const at::Tensor rows = pixels.permute({0, 2, 3, 1}).reshape({-1, kClasses});
    for (const double gamma : {0.0, 1.5}) {
        EXPECT_NEAR(value_of(pixels, with_void, {.focal_gamma = gamma, .ignore_index = 255}),
                    mean_entropy(rows, with_void.flatten(), 255, {}, gamma), 1e-6);
    }
    const at::Tensor tokens = at::randn({2, 7, kClasses}, drawn.generator);
    const at::Tensor next = at::rand({2, 7}, drawn.generator).mul(kClasses).to(at::kLong);
    EXPECT_NEAR(value_of(tokens, next, {}), mean_entropy(tokens.flatten(0, 1), next.flatten(), -100, {}, 0), 1e-6);
    const at::Tensor each = element_losses(tokens, next, {});
    EXPECT_NEAR(each.mean().item<double>(), value_of(tokens, next, {}), 1e-6);
}

// As a part of a batch may be: the rest of the batch teaches, and this part nothing.
TEST(Loss, WithoutATargetThatCountsItIsZero) {
    Drawn drawn;
    const at::Tensor none = at::full({2, 3, 5}, 255, at::kLong);
    for (const LossOptions& options :
         {LossOptions{.ignore_index = 255}, LossOptions{.label_smoothing = 0.1, .ignore_index = 255},
          LossOptions{.focal_gamma = 2, .ignore_index = 255}}) {
        const at::Tensor pixels = at::randn({2, kClasses, 3, 5}, drawn.generator).requires_grad_();
        const at::Tensor loss = compute_loss(pixels, {.input = pixels, .target = none}, options);
        EXPECT_EQ(loss.item<double>(), 0);
        loss.backward();
        EXPECT_EQ(pixels.grad().abs().sum().item<double>(), 0) << "not NaN";
    }
    // Classes of weight 0 do not count either.
    const at::Tensor weight = at::tensor({0.0, 1.0, 2.0, 0.5}, at::kFloat);
    const at::Tensor pixels = at::randn({2, kClasses, 3, 5}, drawn.generator).requires_grad_();
    const at::Tensor background = at::full({2, 3, 5}, 0, at::kLong);
    const at::Tensor loss =
        compute_loss(pixels, {.input = pixels, .target = background}, {.weight = weight, .ignore_index = 255});
    EXPECT_EQ(loss.item<double>(), 0);
    loss.backward();
    EXPECT_EQ(pixels.grad().abs().sum().item<double>(), 0);
    const at::Tensor mask = at::rand({2, 3, 5}, drawn.generator).mul(kClasses).to(at::kLong);
    const at::Tensor rows = pixels.detach().permute({0, 2, 3, 1}).reshape({-1, kClasses});
    EXPECT_NEAR(value_of(pixels.detach(), mask, {.weight = weight, .ignore_index = 255}),
                mean_entropy(rows, mask.flatten(), 255, {0, 1, 2, 0.5}, 0), 1e-6);
}

TEST(Loss, BinaryCrossEntropyWithWeightsOfTheLabel) {
    Drawn drawn;
    const at::Tensor present = at::rand({6, kClasses}, drawn.generator).gt(0.5).to(at::kFloat);
    const std::vector<double> weights = {0.5, 2, 1, 3};
    for (const double gamma : {0.0, 2.0}) {
        double sum = 0;
        for (std::int64_t i = 0; i < 6; ++i) {
            for (std::int64_t k = 0; k < kClasses; ++k) {
                const double p = 1 / (1 + std::exp(-drawn.outputs[i][k].item<double>()));
                const bool is = present[i][k].item<float>() > 0;
                const double right = is ? p : 1 - p;
                sum -= (is ? weights[static_cast<std::size_t>(k)] : 1) * std::pow(1 - right, gamma) * std::log(right);
            }
        }
        const LossOptions options{
            .kind = LossKind::binary_cross_entropy, .focal_gamma = gamma, .weight = at::tensor(weights).to(at::kFloat)};
        EXPECT_NEAR(value_of(drawn.outputs, present, options), sum / (6 * kClasses), 1e-6);
    }
}

TEST(Loss, DifferencesOfNumbers) {
    const at::Tensor target = at::tensor({1.0, -2.0, 0.5}).to(at::kFloat).unsqueeze(1);  // (3, 1)
    const at::Tensor outputs = at::tensor({1.5, 1.0, 0.5}).to(at::kFloat);               // (3): errors 0.5, 3, 0
    EXPECT_NEAR(value_of(outputs, target, {.kind = LossKind::mse}), (0.25 + 9) / 3, 1e-6);
    EXPECT_NEAR(value_of(outputs, target, {.kind = LossKind::l1}), 3.5 / 3, 1e-6);
    EXPECT_NEAR(value_of(outputs, target, {.kind = LossKind::huber}), (0.125 + 2.5) / 3, 1e-6);
    EXPECT_THROW(value_of(at::randn({3, 2}), target, {.kind = LossKind::mse}), InvalidArgument);
}

TEST(Loss, AFunctionOfOnesOwnSeesTheBatch) {
    const Drawn drawn;
    const DeviceBatch batch{.input = drawn.outputs,
                            .target = drawn.classes,
                            .fields = {{"weight", at::full({6}, 2.0)}, {"other", at::full({6}, 1.0)}}};
    const LossOptions options{.function = [](const at::Tensor& outputs, const DeviceBatch& all) {
        return outputs.mul(all.field("weight").unsqueeze(1)).sum();
    }};
    EXPECT_NEAR(compute_loss(drawn.outputs, batch, options).item<double>(), 2 * drawn.outputs.sum().item<double>(),
                1e-5);
    EXPECT_THROW(batch.field("none"), InvalidArgument);
    const DeviceBatch part = batch.narrow(2, 3);
    EXPECT_EQ(part.size(), 3);
    EXPECT_TRUE(at::allclose(part.input, drawn.outputs.narrow(0, 2, 3)));
    EXPECT_EQ(part.field("other").size(0), 3);
    EXPECT_EQ(batch.tensors().size(), 4U);
}

// A sample that is classified beyond doubt has 1 - p = 0.
TEST(Loss, FocalGradientsAreFinite) {
    for (const double gamma : {0.5, 1.0, 2.0}) {
        const at::Tensor logits = at::tensor({100.0F, -100.0F, 0.5F, -0.5F}).reshape({2, 2}).requires_grad_(true);
        compute_loss(logits, {.input = logits, .target = at::tensor({0, 1}).to(at::kLong)}, {.focal_gamma = gamma})
            .backward();
        EXPECT_TRUE(logits.grad().isfinite().all().item<bool>()) << gamma;
        logits.mutable_grad().reset();
        const at::Tensor target = at::tensor({1.0F, 0.0F, 1.0F, 0.0F}).reshape({2, 2});
        compute_loss(logits, {.input = logits, .target = target},
                     {.kind = LossKind::binary_cross_entropy, .focal_gamma = gamma})
            .backward();
        EXPECT_TRUE(logits.grad().isfinite().all().item<bool>()) << gamma;
    }
}

}  // namespace
}  // namespace stoker
