// The predicted step of a model that is cut into stages, against sums by hand.
#include "stoker/dist/pipeline_cost.h"

#include <gmock/gmock.h>

namespace stoker {
namespace {

using ::testing::ElementsAre;

constexpr Link kFast{.bytes_per_second = 1e30, .latency = 0};

std::vector<BlockCost> four_blocks() {
    return std::vector<BlockCost>(
        4, BlockCost{.seconds = 1, .activations = 100, .output = 10, .parameters = 8, .gradients = 8});
}

TEST(PipelineCost, OfEqualStagesIsTheBubble) {
    for (const std::int64_t micro_batches : {1, 4, 12}) {
        for (const int stages : {1, 2, 4}) {
            const PipelineCost cost =
                predict_pipeline(four_blocks(), {.stages = stages, .micro_batches = micro_batches}, kFast);
            EXPECT_NEAR(cost.efficiency, 1 - cost.bubble, 1e-9);
            EXPECT_DOUBLE_EQ(cost.step, static_cast<double>(micro_batches + stages - 1) * 4 / stages);
        }
    }
}

TEST(PipelineCost, TheSlowestStageCounts) {
    std::vector<BlockCost> blocks = four_blocks();
    blocks[3].seconds = 5;
    const PipelineCost cost = predict_pipeline(blocks, {.stages = 2, .micro_batches = 3, .samples = 2}, kFast);
    EXPECT_THAT(cost.firsts, ElementsAre(0, 3));
    EXPECT_DOUBLE_EQ(cost.step, 4 * 2 * 5.0) << "twice the measured samples";
}

// As in training: a stage without a trained block would have nothing to do.
TEST(PipelineCost, StagesEndWithATrainedBlock) {
    std::vector<BlockCost> blocks = four_blocks();
    blocks[1].gradients = blocks[2].gradients = 0;
    const PipelineCost cost = predict_pipeline(blocks, {.stages = 2, .micro_batches = 3}, kFast);
    EXPECT_THAT(cost.firsts, ElementsAre(0, 1));
    EXPECT_DOUBLE_EQ(cost.step, 4 * 3.0);
}

TEST(PipelineCost, CountsWhatIsHeld) {
    const PipelineCost cost =
        predict_pipeline(four_blocks(), {.stages = 4, .copies = 2, .micro_batches = 8, .samples = 0.5}, kFast);
    EXPECT_EQ(cost.parameters, 8);
    EXPECT_EQ(cost.activations_1f1b, 4 * 50 + 5) << "the first stage holds four, and a gradient that came";
    EXPECT_EQ(cost.activations_gpipe, 8 * (50 + 5) + 5) << "later stages hold their inputs, too";
    EXPECT_DOUBLE_EQ(cost.messages, 8 * (5 + 5));
    std::vector<BlockCost> passing = four_blocks();
    passing[0].passing = 140;
    passing[1].passing = 60;
    EXPECT_EQ(predict_pipeline(passing, {.stages = 2, .micro_batches = 8, .samples = 0.5}, kFast).activations_1f1b,
              2 * 100 + 5 + 30)
        << "where the first block goes back, the second has freed its 100";
}

TEST(PipelineCost, AddsMessagesUpdateAndReduction) {
    const Link link{.bytes_per_second = 10, .latency = 0.25};
    const PipelineCost cost =
        predict_pipeline(four_blocks(), {.stages = 2, .copies = 2, .micro_batches = 3, .update = 6}, link);
    EXPECT_DOUBLE_EQ(cost.message_seconds, 2 * 0.25 + 1);
    const double reduction = all_reduce_seconds(16, 2, link);
    EXPECT_DOUBLE_EQ(cost.step, 4 * (2 + 1.5) + 3 + reduction);
    const PipelineCost alone = predict_pipeline(four_blocks(), {.stages = 1, .micro_batches = 3, .update = 6}, link);
    EXPECT_DOUBLE_EQ(alone.step, 3 * 4 + 6) << "nothing is sent";
    EXPECT_DOUBLE_EQ(alone.efficiency, 1);
}

}  // namespace
}  // namespace stoker
