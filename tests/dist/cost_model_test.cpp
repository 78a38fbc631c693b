// The formulas on figures that can be computed by hand, and limits that hold for any.
#include "stoker/dist/cost_model.h"

#include <gmock/gmock.h>

namespace stoker {
namespace {

constexpr Link kLink{.bytes_per_second = 1e9, .latency = 1e-5};
constexpr std::int64_t kMiB = 1 << 20;

TEST(CostModel, RingsSendEachByteOnceOrTwice) {
    constexpr double kBytes = 8e6;
    // Seven of eight parts, seven times: 7 ms and 70 us.
    EXPECT_DOUBLE_EQ(reduce_scatter_seconds(kBytes, 8, kLink), 0.007 + 70e-6);
    EXPECT_DOUBLE_EQ(all_gather_seconds(kBytes, 8, kLink), 0.007 + 70e-6);
    EXPECT_DOUBLE_EQ(all_reduce_seconds(kBytes, 8, kLink), 0.014 + 140e-6);
    for (const auto& seconds : {reduce_scatter_seconds, all_gather_seconds, all_reduce_seconds}) {
        EXPECT_EQ(seconds(kBytes, 1, kLink), 0);
    }
}

// 2 * (12 * 10 us + 8 us) instead of 8190 * 10 us.
TEST(CostModel, ManyRanksReduceSmallTensorsInATree) {
    EXPECT_NEAR(all_reduce_seconds(8e3, 4096, kLink), 256e-6, 1e-9);
}

TEST(CostModel, BucketsAreThoseOfTheReducer) {
    const std::vector<GradientReady> gradients = {
        {0.1, kMiB / 2}, {0.2, kMiB}, {0.3, 20 * kMiB}, {0.4, 10 * kMiB}, {0.5, kMiB}};
    const std::vector<GradientReady> buckets = bucket_gradients(gradients);
    ASSERT_EQ(buckets.size(), 3U);
    EXPECT_EQ(buckets[0].at, 0.2);
    EXPECT_EQ(buckets[0].bytes, kMiB * 3 / 2);
    EXPECT_EQ(buckets[1].at, 0.4);
    EXPECT_EQ(buckets[1].bytes, 30 * kMiB);
    EXPECT_EQ(buckets[2].bytes, kMiB);
}

// Three buckets of 30 MB, each 30 ms between two ranks.
RankStep three_buckets() {
    return {.forward = 0.05,
            .backward = 0.1,
            .update = 0.01,
            .gradients = {{0.02, 30'000'000}, {0.04, 30'000'000}, {0.1, 30'000'000}}};
}

TEST(CostModel, TheBackwardPassHidesAllButTheLastBucket) {
    const RankStepCost cost = predict_step(three_buckets(), {.ranks = 2}, {.bytes_per_second = 1e9});
    EXPECT_DOUBLE_EQ(cost.communication, 0.09);
    EXPECT_NEAR(cost.exposed, 0.03, 1e-12) << "the first two are sent by 0.08";
    EXPECT_NEAR(cost.step(), 0.19, 1e-12);
    EXPECT_NEAR(cost.efficiency(), 0.16 / 0.19, 1e-12);
}

TEST(CostModel, ASlowLinkHidesThePass) {
    const RankStepCost cost = predict_step(three_buckets(), {.ranks = 2}, {.bytes_per_second = 1e8});
    EXPECT_NEAR(cost.exposed, 0.02 + 0.9 - 0.1, 1e-12);
    const RankStepCost half =
        predict_step(three_buckets(), {.ranks = 2, .gradient_scale = 0.5}, {.bytes_per_second = 1e8});
    EXPECT_NEAR(half.exposed, 0.02 + 0.45 - 0.1, 1e-12);
}

// 5 ns of the host a byte: at 1e8 bytes/s the pass has half of its speed while the link sends.
TEST(CostModel, SendingTakesTimeOfTheHost) {
    RankStep step{.forward = 0.05, .backward = 0.1, .gradients = {{0.04, 2'000'000}, {0.1, 1'000'000}}};
    const Link link{.bytes_per_second = 1e8, .host = 5e-9};
    const RankStepCost cost = predict_step(step, {.ranks = 2}, link);
    EXPECT_NEAR(cost.host, 0.01, 1e-12) << "the first bucket is sent for 20 ms, in which 10 ms of the pass are done";
    EXPECT_NEAR(cost.exposed, 0.01, 1e-12) << "the second one follows the pass";
    EXPECT_NEAR(cost.step(), 0.17, 1e-12);
    step.gradients[0].bytes = 200'000'000;
    const RankStepCost behind = predict_step(step, {.ranks = 2}, link);
    EXPECT_NEAR(behind.host, 0.06, 1e-12) << "the rest of the pass, at half speed";
    EXPECT_NEAR(behind.step(), 0.05 + 0.04 + 2 + 0.01, 1e-12) << "a link that is busy hides it";
}

TEST(CostModel, AHostSendsNoFasterThanItsCores) {
    const Link fast{.bytes_per_second = 1e12, .host = 1e-8};
    EXPECT_NEAR(predict_step(three_buckets(), {.ranks = 2}, fast).communication, 0.9, 1e-12);
}

TEST(CostModel, ShardsAddAGatherAndDivideTheUpdate) {
    const RankStepCost whole = predict_step(three_buckets(), {.ranks = 2}, {.bytes_per_second = 1e9});
    const RankStepCost sharded =
        predict_step(three_buckets(), {.ranks = 2, .shard = Shard::optimizer}, {.bytes_per_second = 1e9});
    EXPECT_NEAR(sharded.exposed - whole.exposed, 0.045, 1e-12);
    EXPECT_NEAR(whole.compute - sharded.compute, 0.005, 1e-12);
}

TEST(CostModel, SyncedNormsWaitForEveryMicroBatch) {
    RankStep step = three_buckets();
    step.micro_batches = 2;
    const RankStepCost local = predict_step(step, {.ranks = 8}, kLink);
    EXPECT_DOUBLE_EQ(local.compute, 0.31);
    step.synced_norms = {64, 64};
    const RankStepCost synced = predict_step(step, {.ranks = 8}, kLink);
    const double layer = all_reduce_seconds(8 * 129, 8, kLink) + all_reduce_seconds(8 * 128, 8, kLink);
    EXPECT_NEAR(synced.exposed - local.exposed, 4 * layer, 1e-12);
}

// Four ranks are two copies: buckets between two, and the sums between the two of a copy, of each micro-batch.
TEST(CostModel, ACopysRanksWaitForTheirSums) {
    RankStep step = three_buckets();
    step.micro_batches = 2;
    step.tensor_sums = {4'000'000, 1'000'000};
    const Link link{.bytes_per_second = 1e9};
    const RankStepCost cost = predict_step(step, {.ranks = 4, .tensor = 2}, link);
    EXPECT_NEAR(cost.communication, 0.09 + 2 * 0.005, 1e-12);
    EXPECT_NEAR(cost.exposed, 0.03 + 2 * 0.005, 1e-12);
    const RankStepCost one_copy = predict_step(step, {.ranks = 2, .tensor = 2}, link);
    EXPECT_NEAR(one_copy.exposed, 2 * 0.005, 1e-12) << "nothing is averaged";
    EXPECT_EQ(divide_memory({.parameters = 64, .optimizer = 80}, {.ranks = 8, .tensor = 4, .shard = Shard::optimizer})
                  .optimizer,
              40);
}

TEST(CostModel, OneRankSendsNothing) {
    const RankStepCost cost = predict_step(three_buckets(), {.ranks = 1, .shard = Shard::optimizer}, kLink);
    EXPECT_EQ(cost.exposed, 0);
    EXPECT_EQ(cost.efficiency(), 1);
}

TEST(CostModel, ShardsHoldAShareOfTheOptimizer) {
    const RankMemory alone{
        .parameters = 100 * kMiB, .gradients = 100 * kMiB, .optimizer = 200 * kMiB, .activations = 7};
    EXPECT_EQ(divide_memory(alone, {.ranks = 4}).sum(), alone.sum());
    const RankMemory shard = divide_memory(alone, {.ranks = 4, .shard = Shard::optimizer});
    EXPECT_EQ(shard.optimizer, 50 * kMiB);
    EXPECT_EQ(shard.buffers, 72 * kMiB) << "a chunk of all ranks, Gloo's copy and one's own";
    EXPECT_EQ(divide_memory(alone, {.ranks = 4, .gradient_scale = 0.5}).buffers, 50 * kMiB);
}

// Two blocks of 40 MB, of whose passes the first takes a quarter. All of it is 20 ms between two ranks.
RankStep two_blocks() {
    return {.forward = 0.04,
            .backward = 0.08,
            .update = 0.01,
            .blocks = {{.share = 0.25, .parameters = 40'000'000, .gradients = 40'000'000},
                       {.share = 0.75, .parameters = 40'000'000, .gradients = 40'000'000}}};
}

TEST(CostModel, FullShardsGatherABlockWhileAnotherComputes) {
    const RankStepCost cost = predict_step(two_blocks(), {.ranks = 2, .shard = Shard::full}, {.bytes_per_second = 1e9});
    EXPECT_DOUBLE_EQ(cost.sent, 0.5 * (2 * 80e6 + 80e6 - 40e6)) << "the last block is gathered once";
    EXPECT_NEAR(cost.communication, 0.1, 1e-12);
    // Forward: the first block is there at 20, computed at 30, the second is there at 40 and computed at 70.
    // Backward: the second until 130, and its gradients, until 150, arrive together with the first's end at 150; those
    // of the first at 170.
    EXPECT_NEAR(cost.exposed, 0.17 - 0.12, 1e-12);
    EXPECT_NEAR(cost.compute, 0.125, 1e-12) << "half of the update";
}

TEST(CostModel, FullShardsDoSoForEachMicroBatch) {
    RankStep step = two_blocks();
    const Distribution how{.ranks = 2, .shard = Shard::full};
    const RankStepCost once = predict_step(step, how, kLink);
    step.micro_batches = 3;
    const RankStepCost three = predict_step(step, how, kLink);
    EXPECT_NEAR(three.sent, 3 * once.sent, 1);
    EXPECT_NEAR(three.exposed, 3 * once.exposed, 1e-9);
    const RankStepCost half =
        predict_step(two_blocks(), {.ranks = 2, .shard = Shard::full, .gradient_scale = 0.5}, kLink);
    EXPECT_NEAR(once.sent - half.sent, 20e6, 1) << "half of the gradients' bytes";
}

// The backward pass ends at the first trained block: nothing before it is gathered again, nor reduced.
TEST(CostModel, FullShardsSendNothingBackForFrozenBlocks) {
    RankStep step = two_blocks();
    step.blocks.front().gradients = 0;
    const RankStepCost cost = predict_step(step, {.ranks = 2, .shard = Shard::full}, {.bytes_per_second = 1e9});
    EXPECT_DOUBLE_EQ(cost.sent, 0.5 * (80e6 + 40e6)) << "both gathered once, one reduced";
    const Link slow{.bytes_per_second = 1e18, .latency = 1e-3};
    const RankStepCost latency = predict_step(step, {.ranks = 2, .shard = Shard::full}, slow);
    EXPECT_NEAR(latency.communication, 3e-3, 1e-9) << "a message each";
}

TEST(CostModel, FullShardsHoldAShareOfAllAndTheBlocksAtWork) {
    const RankMemory alone{.parameters = 101 * kMiB,  // one of buffers
                           .gradients = 100 * kMiB,
                           .optimizer = 200 * kMiB,
                           .average = 101 * kMiB,
                           .activations = 7};
    const std::vector<ShardedBlock> blocks = {{.share = 0.5, .parameters = 40 * kMiB, .gradients = 40 * kMiB},
                                              {.share = 0.5, .parameters = 60 * kMiB, .gradients = 60 * kMiB}};
    const RankMemory full = divide_memory(alone, {.ranks = 4, .shard = Shard::full}, blocks);
    EXPECT_EQ(full.parameters, 26 * kMiB);
    EXPECT_EQ(full.gradients, 25 * kMiB);
    EXPECT_EQ(full.optimizer, 50 * kMiB);
    EXPECT_EQ(full.average, 26 * kMiB);
    EXPECT_EQ(full.activations, 7);
    // The second block's backward pass: its parameters, the first's with Gloo's copy, its gradients.
    EXPECT_EQ(full.buffers, 200 * kMiB);
}

TEST(CostModel, EachRankSendsWhatARingDoes) {
    const Distribution four{.ranks = 4};
    EXPECT_DOUBLE_EQ(predict_step(three_buckets(), four, kLink).sent, 1.5 * 90e6);
    EXPECT_DOUBLE_EQ(predict_step(three_buckets(), {.ranks = 4, .shard = Shard::optimizer}, kLink).sent, 2.25 * 90e6);
}

}  // namespace
}  // namespace stoker
