// The predicted step of a model that is divided into stages, against sums by hand.
#include "stoker/dist/pipeline_cost.h"

#include <gmock/gmock.h>

namespace stoker {
namespace {

using ::testing::ElementsAre;

constexpr Link kFast{.bytes_per_second = 1e30, .latency = 0};

std::vector<BlockCost> four_blocks() {
    return std::vector<BlockCost>(
        4, BlockCost{.seconds = 1, .activations = {.grows = 100}, .output = 10, .parameters = 8, .gradients = 8});
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
    EXPECT_EQ(cost.most(&StageMemory::parameters), 8);
    EXPECT_EQ(cost.memory[0].activations_1f1b, 4 * 50 + 5) << "the first stage holds four, and a gradient that came";
    EXPECT_EQ(cost.memory[1].activations_1f1b, 3 * (50 + 5) + 5 + 5) << "later stages also hold their inputs, and send";
    EXPECT_EQ(cost.memory[1].activations_gpipe, 8 * (50 + 5) + 5) << "and begin to send where they hold less";
    EXPECT_DOUBLE_EQ(cost.messages, 8 * (5 + 5));
    std::vector<BlockCost> passing = four_blocks();
    passing[0].passing = {.fixed = 40, .grows = 100};
    passing[1].passing = {.grows = 60};
    const PipelineShape two{.stages = 2, .micro_batches = 8, .samples = 0.5};
    EXPECT_EQ(predict_pipeline(passing, two, kFast).memory[0].activations_1f1b, 2 * 100 + 5 + 40)
        << "when the first block goes back, the second has freed its 50; a gradient of weights takes 40";
}

TEST(PipelineCost, TellsWhatGrowsWithTheSamples) {
    const SampleBytes bytes = SampleBytes::measured(100, 70, 0.25);
    EXPECT_DOUBLE_EQ(bytes.fixed, 60);
    EXPECT_DOUBLE_EQ(bytes.of(3), 60 + 3 * 40);
    EXPECT_DOUBLE_EQ(SampleBytes::measured(100, 120, 0.5).of(3), 100) << "less with more samples is noise";
    EXPECT_DOUBLE_EQ(SampleBytes::measured(100, 10, 0.5).of(3), 300) << "bytes are not negative";
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
