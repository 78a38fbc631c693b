// Batch norm of several ranks, here threads, against LibTorch's batch norm on the whole batch.
#include "stoker/models/sync_batch_norm.h"

#include <ATen/ops/batch_norm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <thread>

#include "stoker/models/batch_norm_relu.h"
#include "stoker/models/init.h"
#include "support/summed.h"

namespace stoker {
namespace {

using testing::Summed;

constexpr std::int64_t kChannels = 5;

// A layer with its gradients after one pass.
struct Pass {
    BatchNorm norm;
    at::Tensor x;
    at::Tensor y;

    Pass(const at::Tensor& input, at::ScalarType type) : x(input.to(type).detach().clone().requires_grad_(true)) {
        at::Generator generator = make_generator(3);
        norm.gamma = at::rand({kChannels}, generator).add_(0.5).requires_grad_(true);
        norm.beta = at::rand({kChannels}, generator).requires_grad_(true);
        norm.running_mean = at::zeros({kChannels});
        norm.running_var = at::ones({kChannels});
    }
};

Pass whole_pass(const at::Tensor& x, const at::Tensor& dy, at::ScalarType type) {
    Pass pass(x, type);
    pass.y = batch_norm_relu_reference(pass.x, pass.norm, {}, {});
    pass.y.backward(dy.to(type));
    return pass;
}

std::vector<Pass> rank_passes(const at::Tensor& x, const at::Tensor& dy, const std::vector<std::int64_t>& slices,
                              at::ScalarType type) {
    Summed summed(std::ssize(slices));
    const SumOverRanks sum = [&](const at::Tensor& values) { summed(values); };
    std::vector<Pass> passes;
    std::vector<at::Tensor> gradients;
    std::int64_t begin = 0;
    for (const std::int64_t count : slices) {
        passes.emplace_back(x.narrow(0, begin, count), type);
        gradients.push_back(dy.narrow(0, begin, count).to(type));
        begin += count;
    }
    std::vector<std::thread> ranks;
    for (std::size_t rank = 0; rank < slices.size(); ++rank) {
        ranks.emplace_back([&, rank] {
            Pass& pass = passes[rank];
            pass.y = batch_norm_relu(pass.x, pass.norm, {}, {.sum = &sum});
            pass.y.backward(gradients[rank]);
        });
    }
    for (std::thread& rank : ranks) {
        rank.join();
    }
    return passes;
}

// The largest difference, relative to the largest value.
double difference(const at::Tensor& a, const at::Tensor& b) {
    const at::Tensor expected = b.detach().to(at::kDouble);
    return a.detach().to(at::kDouble).sub(expected).abs().max().item<double>() / expected.abs().max().item<double>();
}

struct SyncedCase {
    std::vector<std::int64_t> slices;
    bool channels_last = false;
    at::ScalarType type = at::kFloat;
    double offset = 0;  // of the values from 0, in standard deviations
    double tolerance = 1e-6;
};

void expect_the_whole(const SyncedCase& given) {
    at::Generator generator = make_generator(1);
    at::Tensor x = at::randn({12, kChannels, 4, 3}, generator).add_(given.offset);
    at::Tensor dy = at::randn({12, kChannels, 4, 3}, generator);
    if (given.channels_last) {
        x = x.contiguous(at::MemoryFormat::ChannelsLast);
        dy = dy.contiguous(at::MemoryFormat::ChannelsLast);
    }
    const Pass whole = whole_pass(x, dy, given.type);
    const std::vector<Pass> ranks = rank_passes(x, dy, given.slices, given.type);
    at::Tensor dgamma = at::zeros({kChannels});
    at::Tensor dbeta = at::zeros({kChannels});
    std::int64_t begin = 0;
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
        const Pass& own = ranks[rank];
        const std::int64_t count = given.slices[rank];
        EXPECT_EQ(own.y.scalar_type(), given.type);
        if (count > 0) {
            EXPECT_LT(difference(own.y, whole.y.narrow(0, begin, count)), given.tolerance);
            EXPECT_LT(difference(own.x.grad(), whole.x.grad().narrow(0, begin, count)), given.tolerance);
        }
        EXPECT_LT(difference(own.norm.running_mean, whole.norm.running_mean), given.tolerance);
        EXPECT_LT(difference(own.norm.running_var, whole.norm.running_var), given.tolerance);
        EXPECT_TRUE(own.norm.running_var.equal(ranks[0].norm.running_var)) << "bit for bit";
        dgamma.add_(own.norm.gamma.grad());
        dbeta.add_(own.norm.beta.grad());
        begin += count;
    }
    EXPECT_LT(difference(dgamma, whole.norm.gamma.grad()), given.tolerance);
    EXPECT_LT(difference(dbeta, whole.norm.beta.grad()), given.tolerance);
}

TEST(SyncBatchNorm, OfEvenSlicesIsThatOfTheBatch) {
    expect_the_whole({.slices = {12}});
    expect_the_whole({.slices = {6, 6}});
    expect_the_whole({.slices = {3, 3, 3, 3}, .channels_last = true});
}

TEST(SyncBatchNorm, OfUnevenAndEmptySlicesIsThatOfTheBatch) {
    expect_the_whole({.slices = {1, 11}});
    expect_the_whole({.slices = {0, 5, 0, 7}, .channels_last = true});
}

TEST(SyncBatchNorm, KeepsPrecisionFarFromZero) {
    expect_the_whole({.slices = {5, 7}, .offset = 100, .tolerance = 1e-4});
}

TEST(SyncBatchNorm, TakesHalfPrecision) {
    expect_the_whole({.slices = {5, 7}, .type = at::kBFloat16, .tolerance = 2e-2});
}

}  // namespace
}  // namespace stoker
