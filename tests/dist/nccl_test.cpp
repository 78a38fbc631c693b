// Which collectives go between GPUs, and the error when one fails. NCCL itself runs on a machine with a GPU only.
#include "stoker/dist/nccl.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include <algorithm>
#include <array>
#include <chrono>

#include "stoker/bridge/device.h"
#include "support/fake_nccl.h"
#include "support/ranks.h"

namespace stoker {
namespace {

using testing::as_ranks;
using ::testing::Each;
using ::testing::HasSubstr;

std::string own_gpu(const std::shared_ptr<Group>& group) {
    return "gpu " + std::to_string(group->rank());
}

TEST(Nccl, TakesTensorsOfTheDeviceAndNothingElse) {
    testing::FakeNcclLibrary library;
    EXPECT_THAT(as_ranks(3,
                         [](const auto& group) {
                             group->use_device(at::kCPU, own_gpu(group));
                             EXPECT_TRUE(group->uses_nccl());
                             const at::Tensor sum = at::full({2}, 1 + group->rank(), at::kFloat);
                             group->all_reduce(sum);
                             EXPECT_TRUE(at::equal(sum, at::full({2}, 6, at::kFloat)));
                             const at::Tensor gathered = group->all_gather(at::full({2}, group->rank(), at::kLong));
                             EXPECT_EQ(gathered[2][1].item<std::int64_t>(), 2);
                             std::vector<at::Tensor> shared = {at::full({3}, group->rank(), at::kFloat)};
                             group->broadcast(shared);
                             EXPECT_EQ(shared[0][1].item<float>(), 0);
                         }),
                Each(""));
    EXPECT_EQ(library.log.count("allreduce"), 3);
    EXPECT_EQ(library.log.count("allgather"), 3);
    EXPECT_EQ(library.log.count("broadcast"), 3);
    library.log.calls.clear();
    EXPECT_THAT(as_ranks(2,
                         [](const auto& group) {
                             group->use_device(at::kCPU, own_gpu(group));
                             std::array values = {1.0};
                             group->all_reduce(values);
                             EXPECT_EQ(values[0], 2);
                             EXPECT_THAT(group->all_gather(own_gpu(group)), ::testing::ElementsAre("gpu 0", "gpu 1"));
                             group->barrier();
                             group->delayed_max(group->rank());
                             EXPECT_EQ(group->delayed_max(0), 1);
                         }),
                Each(""));
    // all_gather of texts has tensors of the host, which is the device of this test.
    EXPECT_EQ(library.log.count("allreduce"), 0);
    EXPECT_EQ(library.log.aborted, 10) << "both connections of each rank are closed";
}

TEST(Nccl, IsNotForRanksThatShareAGpuOrHaveNone) {
    testing::FakeNcclLibrary library;
    for (const bool shares : {true, false}) {
        EXPECT_THAT(as_ranks(2,
                             [&](const auto& group) {
                                 group->use_device(at::kCPU, shares ? "the same" : group->first() ? "gpu" : "");
                                 EXPECT_FALSE(group->uses_nccl());
                                 EXPECT_EQ(group->why_gloo(),
                                           shares ? "ranks 0 and 1 share a GPU" : "rank 1 has no GPU");
                                 const at::Tensor one = at::full({1}, 1.0);
                                 group->all_reduce(one);
                                 EXPECT_EQ(one.item<float>(), 2);
                             }),
                    Each(""));
    }
    EXPECT_TRUE(library.log.calls.empty());
}

// With one message after the other both ranks would send first, and wait for ever.
TEST(Nccl, ExchangesMessagesInOneGroup) {
    testing::FakeNcclLibrary library;
    for (const int ranks : {2, 3}) {
        EXPECT_THAT(as_ranks(ranks,
                             [&](const auto& group) {
                                 group->use_device(at::kCPU, own_gpu(group));
                                 const int after = (group->rank() + 1) % ranks;
                                 const int before = (group->rank() + ranks - 1) % ranks;
                                 const at::Tensor got =
                                     group->exchange(at::full({4}, group->rank(), at::kFloat), after, before);
                                 EXPECT_EQ(got[3].item<float>(), static_cast<float>(before));
                             }),
                    Each(""));
    }
}

TEST(Nccl, ScattersSumsWithoutTheDetourOfGloo) {
    testing::FakeNcclLibrary library;
    EXPECT_THAT(
        as_ranks(2,
                 [](const auto& group) {
                     group->use_device(at::kCPU, own_gpu(group));
                     const at::Tensor all = at::arange(6, at::kFloat).add_(group->rank());
                     const at::Tensor mine = at::zeros({3});
                     group->start_reduce_scatter(mine, all)();
                     EXPECT_TRUE(at::equal(mine, at::arange(3, at::kFloat).add_(3 * group->rank()).mul_(2).add_(1)));
                     const at::Tensor whole = at::zeros({6});
                     group->start_all_gather(whole, mine)();
                     EXPECT_TRUE(at::equal(whole, at::arange(6, at::kFloat).mul_(2).add_(1)));
                 }),
        Each(""));
    EXPECT_EQ(library.log.count("reduce_scatter"), 2);
    EXPECT_EQ(library.log.count("allreduce"), 0);
}

TEST(Nccl, BelongsToSubGroupsToo) {
    testing::FakeNcclLibrary library;
    EXPECT_THAT(as_ranks(3,
                         [](const auto& group) {
                             group->use_device(at::kCPU, own_gpu(group));
                             const bool last = group->rank() == 2;
                             const auto part = group->subgroup(last ? std::vector{2} : std::vector{0, 1});
                             EXPECT_EQ(part->uses_nccl(), !last);
                             const at::Tensor sum = at::full({1}, 1 + group->rank(), at::kFloat);
                             part->all_reduce(sum);
                             EXPECT_EQ(sum.item<float>(), 3);
                         }),
                Each(""));
    EXPECT_EQ(library.log.communicators.size(), 4U) << "two for each group";
}

TEST(Nccl, AFailedCollectiveIsALostRank) {
    testing::FakeNcclLibrary library;
    for (const auto error : {c10d::ErrorType::TIMEOUT, c10d::ErrorType::COMM_ERROR}) {
        const bool late = error == c10d::ErrorType::TIMEOUT;
        EXPECT_THAT(as_ranks(2,
                             [&](const auto& group) {
                                 group->use_device(at::kCPU, own_gpu(group));
                                 group->check();
                                 group->barrier();
                                 if (group->first()) {
                                     const std::lock_guard lock(library.log.mutex);
                                     library.log.error = error;
                                 }
                                 group->barrier();
                                 try {
                                     group->check();
                                     ADD_FAILURE() << "nothing was lost";
                                 } catch (const RankLost& lost) {
                                     EXPECT_THAT(lost.what(),
                                                 HasSubstr(late ? "no answer from another rank for 20 s"
                                                                : "a collective between GPUs that failed"));
                                 }
                                 group->leave("");
                             }),
                    Each(""));
        library.log.error = c10d::ErrorType::SUCCESS;
    }
    EXPECT_EQ(library.log.aborted, 8) << "nothing is waited for";
}

// One GPU is enough: NCCL can have a communicator of one rank.
TEST(NcclCuda, HasTheCollectives) {
    if (!pick_device("auto").is_cuda()) {
        GTEST_SKIP() << "no CUDA device";
    }
    const at::Device device = pick_device("cuda");
    ASSERT_EQ(why_no_nccl(device), "");
    const auto nccl = connect_nccl(
        {.store = c10::make_intrusive<c10d::HashStore>(), .device = device, .timeout = std::chrono::seconds(30)});
    std::vector<at::Tensor> values = {at::full({5}, 3.0, at::TensorOptions().device(device))};
    nccl->allreduce(values)->wait();
    EXPECT_EQ(values[0][4].item<float>(), 3);
    at::Tensor whole = at::zeros_like(values[0]);
    nccl->_allgather_base(whole, values[0])->wait();
    nccl->_reduce_scatter_base(values[0], whole)->wait();
    EXPECT_EQ(values[0][0].item<float>(), 3);
    std::vector<at::Tensor> received = {at::zeros_like(whole)};
    nccl->startCoalescing();
    nccl->send(values, 0, 0);
    nccl->recv(received, 0, 0);
    nccl->endCoalescing()->wait();
    EXPECT_TRUE(at::equal(received[0], values[0]));
    EXPECT_EQ(nccl->getError(), c10d::ErrorType::SUCCESS);
    nccl->shutdown();
}

}  // namespace
}  // namespace stoker
