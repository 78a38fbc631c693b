// The distributions of mixup's and cutmix's parameters; the references compared with torchvision's batches.
#include "stoker/ops/mixup_cutmix_params.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "ops/golden.h"
#include "ops/mixup_cutmix_reference.h"
#include "stoker/base/error.h"

namespace stoker {
namespace {

TensorView view_of(std::vector<float>& values, Shape shape) {
    return {reinterpret_cast<std::byte*>(values.data()), DType::float32, std::move(shape)};
}

// golden.py's batch of (3, 2, 2, 3).
std::vector<float> batch() {
    std::vector<float> values;
    for (int i = 0; i < 36; ++i) {
        values.push_back(static_cast<float>(i * i) / 10.0f);
    }
    return values;
}

void expect_equal(const std::vector<float>& values, std::span<const float> wanted) {
    ASSERT_EQ(values.size(), wanted.size());
    for (std::size_t i = 0; i < wanted.size(); ++i) {
        EXPECT_EQ(values[i], wanted[i]) << i;
    }
}

TEST(MixUpReference, MatchesTorchvision) {
    std::vector<float> images = batch();
    testing::mixup_reference(view_of(images, {3, 2, 2, 3}), 0.3);
    expect_equal(images, testing::kMixup);
    const std::int64_t labels[] = {1, 0, 1};
    std::vector<float> targets(9, 7.0f);
    testing::soft_targets_reference(labels, 0.3, view_of(targets, {3, 3}));
    expect_equal(targets, testing::kMixupTargets);
}

TEST(CutMixReference, MatchesTorchvision) {
    std::vector<float> images = batch();
    testing::cutmix_reference(view_of(images, {3, 2, 2, 3}), {0, 1, 1, 2});
    expect_equal(images, testing::kCutmix);
}

TEST(CutMix, DrawsBoxesThatLeaveLambda) {
    double sum = 0;
    for (std::uint64_t number = 0; number < 5000; ++number) {
        Rng rng = batch_rng(1, 2, number, BatchOp::cutmix);
        const CutMixParams params = draw_cutmix(1, 20, 30, rng);
        const Box& box = params.box;
        ASSERT_GE(box.top, 0);
        ASSERT_GE(box.left, 0);
        ASSERT_LE(box.top + box.height, 20);
        ASSERT_LE(box.left + box.width, 30);
        ASSERT_DOUBLE_EQ(params.lambda, 1.0 - box.height * box.width / 600.0);
        sum += params.lambda;
    }
    // torchvision's mean over 2 million draws. The standard deviation of one draw is 0.18; six of the mean's are
    // allowed.
    EXPECT_NEAR(sum / 5000, 0.7085, 0.0155);
}

TEST(Beta, HasItsMeanAndVariance) {
    constexpr int kDraws = 20000;
    for (const double alpha : {0.1, 0.2, 0.5, 1.0, 1.5, 8.0}) {
        double sum = 0;
        double squares = 0;
        for (std::uint64_t number = 0; number < kDraws; ++number) {
            Rng rng = batch_rng(7, 0, number, BatchOp::mixup);
            const double value = draw_beta(alpha, rng);
            ASSERT_GE(value, 0);
            ASSERT_LE(value, 1);
            sum += value;
            squares += (value - 0.5) * (value - 0.5);
        }
        const double variance = 1.0 / (4.0 * (2.0 * alpha + 1.0));
        EXPECT_NEAR(sum / kDraws, 0.5, 6 * std::sqrt(variance / kDraws)) << alpha;
        EXPECT_NEAR(squares / kDraws, variance, 6 * 0.25 / std::sqrt(kDraws) * std::sqrt(variance)) << alpha;
    }
}

TEST(Beta, OfOneIsUniformAndOfTinyAlphasEitherEnd) {
    std::vector<int> tenths(10);
    int between = 0;  // expected: seven in a million
    for (std::uint64_t number = 0; number < 20000; ++number) {
        Rng rng = batch_rng(3, 1, number, BatchOp::mixup);
        ++tenths[std::min<std::size_t>(static_cast<std::size_t>(draw_beta(1, rng) * 10), 9)];
        const double end = draw_beta(1e-6, rng);
        between += end > 1e-3 && end < 1 - 1e-3 ? 1 : 0;
    }
    for (const int count : tenths) {
        EXPECT_NEAR(count, 2000, 260);
    }
    EXPECT_LE(between, 4);
    Rng rng({});
    EXPECT_THROW(draw_beta(0, rng), InvalidArgument);
    EXPECT_THROW(draw_beta(std::numeric_limits<double>::quiet_NaN(), rng), InvalidArgument);
}

TEST(BatchRng, IsAFunctionOfSeedEpochBatchAndOp) {
    const auto first = [](Rng rng) { return rng.next(); };
    const std::uint32_t one = first(batch_rng(1, 2, 3, BatchOp::mixup));
    EXPECT_EQ(one, first(batch_rng(1, 2, 3, BatchOp::mixup)));
    EXPECT_NE(one, first(batch_rng(2, 2, 3, BatchOp::mixup)));
    EXPECT_NE(one, first(batch_rng(1, 3, 3, BatchOp::mixup)));
    EXPECT_NE(one, first(batch_rng(1, 2, 4, BatchOp::mixup)));
    EXPECT_NE(one, first(batch_rng(1, 2, 3, BatchOp::cutmix)));
}

}  // namespace
}  // namespace stoker
