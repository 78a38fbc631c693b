// Gradients of several ranks are averaged, in float32 or compressed.
#include "stoker/dist/gradient_reducer.h"

#include <ATen/Context.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <ATen/record_function.h>
#include <gmock/gmock.h>
#include <torch/csrc/autograd/autograd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <string_view>
#include <thread>

#include "support/ranks.h"

namespace stoker {
namespace {

using testing::as_ranks;
using ::testing::Each;

constexpr int kRanks = 3;
constexpr std::int64_t kElements = 1000;

// The gradient that a rank contributes, with a different magnitude on each rank.
at::Tensor contribution(int rank, std::int64_t step) {
    at::manual_seed(static_cast<std::uint64_t>(rank + 10 * step));
    return at::randn({kElements}).mul_(1.0 + rank);
}

// Calls `check` on each rank with the averaged gradient, and the ranks' contributions (ranks, kElements).
void reduce(std::optional<at::ScalarType> type,
            const std::function<void(const at::Tensor&, const at::Tensor&)>& check) {
    std::vector<std::vector<at::Tensor>> given(3);  // by step
    for (std::int64_t step = 0; step < 3; ++step) {
        for (int rank = 0; rank < kRanks; ++rank) {
            given[static_cast<std::size_t>(step)].push_back(contribution(rank, step));
        }
    }
    EXPECT_THAT(as_ranks(kRanks,
                         [&](const auto& group) {
                             const at::Tensor parameter = at::zeros({kElements}).requires_grad_(true);
                             GradientReducer reducer(*group, {parameter}, type);
                             for (const auto& step : given) {
                                 reducer.prepare();
                                 parameter.mul(step[static_cast<std::size_t>(group->rank())]).sum().backward();
                                 EXPECT_TRUE(reducer.complete());
                                 const at::Tensor mean = parameter.grad().clone();
                                 const at::Tensor all = group->all_gather(mean);
                                 for (int rank = 1; rank < kRanks; ++rank) {
                                     EXPECT_TRUE(at::equal(all[rank], all[0])) << "bit for bit on all ranks";
                                 }
                                 check(mean, at::stack(step));
                                 parameter.mutable_grad().reset();
                             }
                         }),
                Each(""));
}

TEST(GradientReducer, Averages) {
    reduce(std::nullopt, [](const at::Tensor& mean, const at::Tensor& given) {
        EXPECT_LT(mean.sub(given.mean(0)).abs().max().item<double>(), 1e-6);
    });
}

// Each rank's value and each partial sum is rounded once.
void expect_compressed(at::ScalarType type, double unit) {
    reduce(type, [=](const at::Tensor& mean, const at::Tensor& given) {
        EXPECT_TRUE(at::equal(mean.to(type).to(at::kFloat), mean)) << "it came in that type";
        const at::Tensor error = mean.sub(given.mean(0)).abs();
        const at::Tensor bound = given.abs().mean(0).mul(kRanks * unit);
        EXPECT_TRUE(error.le(bound).all().item<bool>());
        EXPECT_GT(error.max().item<double>(), 0);
    });
}

TEST(GradientReducer, CompressesToBf16) {
    expect_compressed(at::kBFloat16, 1.0 / 256);
}

TEST(GradientReducer, CompressesToFp16) {
    expect_compressed(at::kHalf, 1.0 / 2048);
}

// All-reduces of each rank. An end takes a while.
std::array<std::atomic<int>, 2> ended = {};

struct Reduction : at::ObserverContext {};

std::unique_ptr<at::ObserverContext> begin_reduction(const at::RecordFunction& function) {
    return std::string_view(function.name()) == "gloo:all_reduce" ? std::make_unique<Reduction>() : nullptr;
}

template <std::size_t rank>
void end_reduction(const at::RecordFunction& /*function*/, at::ObserverContext* reduction) {
    if (reduction != nullptr) {
        std::this_thread::sleep_for(std::chrono::milliseconds(30));
        ++ended[rank];
    }
}

// Or a profile that stops after a step lacks its last bucket.
TEST(GradientReducer, AllReducesHaveEndedOnceComplete) {
    EXPECT_THAT(
        as_ranks(2,
                 [](const auto& group) {
                     const at::Tensor parameter = at::zeros({kElements}).requires_grad_(true);
                     GradientReducer reducer(*group, {parameter});
                     const auto end = group->rank() == 0 ? end_reduction<0> : end_reduction<1>;
                     const auto callback = at::addThreadLocalCallback(
                         at::RecordFunctionCallback(begin_reduction, end).scopes({at::RecordScope::USER_SCOPE}));
                     reducer.prepare();
                     parameter.sum().backward();
                     EXPECT_TRUE(reducer.complete());
                     EXPECT_EQ(ended[static_cast<std::size_t>(group->rank())], 1);
                     at::removeCallback(callback);
                 }),
        Each(""));
}

}  // namespace
}  // namespace stoker
