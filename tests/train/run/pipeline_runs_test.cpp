// Runs whose model is divided into stages train what one process trains, write its checkpoints, and go on from them.
#include <ATen/ops/embedding.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/randn.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fstream>

#include "stoker/dist/pipeline_cost.h"
#include "stoker/dist/pipeline_schedule.h"
#include "stoker/models/init.h"
#include "stoker/train/rank_step.h"
#include "support/counted_memory.h"
#include "support/slow.h"
#include "train/run/rank_runs.h"
#include "train/task_data.h"

namespace stoker {
namespace {

using ::testing::AllOf;
using testing::as_ranks;
using ::testing::Each;
using testing::expect_alike;
using ::testing::HasSubstr;
using testing::kStepsAnEpoch;
using testing::odd_data;
using testing::RankRuns;
using testing::small_recipe;
using testing::step_losses;
using testing::TempDir;
using testing::train_ranks;

// Five layers in four micro-batches; two pairs of the layers can be divided.
Recipe deep_recipe(std::int64_t epochs = 3) {
    Recipe recipe = small_recipe(epochs);
    recipe.model.hidden = {16, 12, 12, 8};
    recipe.model.activation = "gelu";
    recipe.optimizer.name = "sgd";
    recipe.optimizer.momentum = 0.9;
    recipe.train.accumulate = 4;
    return recipe;
}

Recipe deep_vit_recipe() {
    Recipe recipe = deep_recipe(1);
    recipe.model.name = "vit_s_16";
    recipe.optimizer.lr = 1e-3;
    recipe.train.accumulate = 2;
    const Recipe ops = parse_recipe("[data]\ntrain = \"x\"\ntrain_ops = [{op = \"resize\", size = 16}]", "test");
    recipe.data.train_ops = recipe.data.val_ops = ops.data.train_ops;
    return recipe;
}

// The last batch has one sample; batch norm needs more.
Recipe convnet_recipe() {
    Recipe recipe = deep_recipe(2);
    recipe.model.name = "convnet";
    recipe.data.drop_last = true;
    recipe.train.accumulate = 2;
    return recipe;
}

struct Stages {
    std::int64_t pp;
    int dp = 1;
    std::int64_t tp = 1;
    const char* pipeline = "1f1b";

    int ranks() const { return static_cast<int>(dp * pp * tp); }
};

Recipe staged(Recipe recipe, const Stages& stages) {
    recipe.train.mesh = {.dp = stages.dp, .pp = stages.pp, .tp = stages.tp};
    recipe.train.pipeline = stages.pipeline;
    return recipe;
}

// Losses of all steps. After each epoch, a stage's tensors are the same bits on all copies.
std::vector<double> stage_losses(const Recipe& recipe, const Stages& stages) {
    return step_losses(staged(recipe, stages), stages.ranks(), [&](Trainer& trainer, const Group& group) {
        EXPECT_EQ(trainer.stage().has_value(), stages.pp > 1);
        const std::int64_t copy = stages.pp * stages.tp;
        std::string bits;
        for (const auto& [name, tensor] : trainer.model().state()) {
            const at::Tensor values = tensor.detach().contiguous();
            bits.append(static_cast<const char*>(values.const_data_ptr()), values.nbytes());
        }
        const std::vector<std::string> all = group.all_gather(bits);
        for (std::size_t rank = 0; rank < all.size(); ++rank) {
            EXPECT_TRUE(all[rank] == all[rank % static_cast<std::size_t>(copy)]) << "rank " << rank;
            EXPECT_FALSE(all[rank].empty());
        }
    });
}

void expect_losses_of_one_process(const Recipe& recipe, const std::vector<Stages>& meshes, std::size_t steps) {
    const std::vector<double> one = stage_losses(recipe, {.pp = 1});
    ASSERT_EQ(one.size(), steps);
    for (const Stages& stages : meshes) {
        const std::vector<double> several = stage_losses(recipe, stages);
        ASSERT_EQ(several.size(), one.size());
        for (std::size_t step = 0; step < one.size(); ++step) {
            EXPECT_NEAR(several[step] / one[step], 1, 1e-6)
                << "step " << step << " of dp = " << stages.dp << ", pp = " << stages.pp << ", tp = " << stages.tp;
        }
    }
}

// Fifty-six steps.
TEST(PipelineRuns, AnMlpsLossesAreThoseOfOneProcess) {
    expect_losses_of_one_process(deep_recipe(8),
                                 {{.pp = 2},
                                  {.pp = 4},
                                  {.pp = 2, .pipeline = "gpipe"},
                                  {.pp = 4, .pipeline = "gpipe"},
                                  {.pp = 2, .dp = 2},
                                  {.pp = 2, .tp = 2},
                                  {.pp = 2, .dp = 2, .tp = 2, .pipeline = "gpipe"}},
                                 8 * kStepsAnEpoch);
}

TEST(PipelineRuns, AVisionTransformersLossesAreThoseOfOneProcess) {
    STOKER_SLOW_TEST();
    Recipe recipe = deep_vit_recipe();
    recipe.train.channels_last = false;
    expect_losses_of_one_process(
        recipe, {{.pp = 2}, {.pp = 4, .pipeline = "gpipe"}, {.pp = 2, .dp = 2}, {.pp = 2, .tp = 2}}, kStepsAnEpoch);
}

// Every pass is the same arithmetic on the same numbers, so the bits are the same, running statistics included.
TEST(PipelineRuns, StagesAloneChangeNoBit) {
    Recipe small = deep_recipe(2);
    small.train.compile = "none";
    for (const Recipe& recipe : {small, convnet_recipe()}) {
        const TempDir dir;
        train_ranks(recipe, 1, dir.path() / "one");
        for (const Stages& stages : {Stages{.pp = 2}, Stages{.pp = 4}, Stages{.pp = 3, .pipeline = "gpipe"}}) {
            const std::filesystem::path run = dir.path() / fmt::format("pp{}", stages.pp);
            train_ranks(staged(recipe, stages), stages.ranks(), run);
            for (const auto& [step, checkpoint] : checkpoints_in(dir.path() / "one/checkpoints")) {
                for (const char* file : {"model.safetensors", "optimizer.safetensors"}) {
                    const auto name = std::filesystem::path("checkpoints") / std::to_string(step) / file;
                    EXPECT_TRUE(testing::text_of(run / name) == testing::text_of(dir.path() / "one" / name))
                        << recipe.model.name << " of " << stages.pp << " stages, " << name;
                }
            }
        }
    }
}

struct StagesCase {
    const char* name;
    Stages stages;
    void (*change)(Recipe&);
    double tolerance = 1e-6;
};

void PrintTo(const StagesCase& given, std::ostream* out) {
    *out << given.name;
}

class StagedRuns : public ::testing::TestWithParam<StagesCase> {};

TEST_P(StagedRuns, TrainWhatOneTrains) {
    const TempDir dir;
    const auto& [name, stages, change, tolerance] = GetParam();
    Recipe recipe = deep_recipe();
    change(recipe);
    train_ranks(recipe, 1, dir.path() / "one");
    const RankRuns run = train_ranks(staged(recipe, stages), stages.ranks(), dir.path() / "several");
    expect_alike(dir.path() / "one", dir.path() / "several", tolerance);
    for (const TrainResult& result : run.results) {
        EXPECT_EQ(testing::figures(result.epochs), testing::figures(run.results[0].epochs));
    }
}

void with_all_parts(Recipe& recipe) {
    recipe.train.clip_norm = 0.05;
    recipe.train.ema = 0.9;
    recipe.train.mixup = 0.4;
}

void with_all_parts_sharded(Recipe& recipe) {
    with_all_parts(recipe);
    recipe.train.shard = "optimizer";
    recipe.optimizer.name = "adamw";
    recipe.optimizer.weight_decay = 0.1;
    recipe.optimizer.no_decay = {"norms_and_biases"};
}

void with_synced_stages(Recipe& recipe) {
    recipe = convnet_recipe();
    recipe.train.epochs = 3;
    recipe.train.accumulate = 1;  // micro-batches of the ranks have other samples than those of one process
    recipe.train.sync_batch_norm = true;
}

constexpr double kHalfPrecision = 2e-2;
INSTANTIATE_TEST_SUITE_P(
    Each, StagedRuns,
    ::testing::Values(StagesCase{"two", {.pp = 2}, [](Recipe&) {}},
                      StagesCase{"copies", {.pp = 2, .dp = 2}, [](Recipe&) {}},
                      StagesCase{"one_micro_batch", {.pp = 3}, [](Recipe& r) { r.train.accumulate = 1; }},
                      StagesCase{"clipping", {.pp = 4}, [](Recipe& r) { r.train.clip_norm = 0.05; }},
                      StagesCase{"clipped_slices", {.pp = 2, .tp = 2}, [](Recipe& r) { r.train.clip_norm = 0.05; }},
                      StagesCase{"ema", {.pp = 2}, [](Recipe& r) { r.train.ema = 0.9; }},
                      StagesCase{
                          "patterns_of_one_stage", {.pp = 2}, [](Recipe& r) { r.optimizer.no_decay = {"fc1.*"}; }},
                      StagesCase{"frozen",
                                 {.pp = 2, .dp = 2},
                                 [](Recipe& r) {
                                     r.model.freeze = {"fc1.*", "fc2.*", "fc5.bias"};
                                 }},
                      StagesCase{"everything", {.pp = 2, .dp = 2, .tp = 2}, with_all_parts},
                      StagesCase{"everything_sharded", {.pp = 2, .dp = 2}, with_all_parts_sharded, 1e-5},
                      StagesCase{"synced_norms", {.pp = 2, .dp = 2}, with_synced_stages, 1e-5},
                      StagesCase{"smoothing", {.pp = 2}, [](Recipe& r) { r.train.label_smoothing = 0.1; }},
                      StagesCase{"fp16",
                                 {.pp = 2, .dp = 2},
                                 [](Recipe& r) {
                                     r.train.precision = "fp16";
                                     r.train.loss_scale = 1024;
                                 },
                                 kHalfPrecision},
                      StagesCase{"bf16", {.pp = 2}, [](Recipe& r) { r.train.precision = "bf16"; }, kHalfPrecision}),
    [](const auto& given) { return given.param.name; });

TEST(PipelineRuns, AnOverflowOnOneStageSkipsTheStepOnAll) {
    const Stages stages{.pp = 2, .dp = 2};
    Recipe recipe = staged(deep_recipe(1), stages);
    for (const double factor : {1.0, 1.4}) {
        testing::expect_overflows_skip_on_all(recipe, stages.ranks(), factor);
    }
    recipe.train.precision = "fp16";
    recipe.train.loss_scale = 1 << 22;
    stage_losses(recipe, stages);  // compares the copies' weights
}

// From any mesh to any other in the middle of a run, with an optimizer that has state of each parameter.
TEST(PipelineCheckpoints, AnyMeshGoesOn) {
    STOKER_SLOW_TEST();
    const TempDir dir;
    Recipe recipe = deep_recipe();
    recipe.optimizer.name = "adam";
    recipe.train.ema = 0.9;
    train_ranks(recipe, 1, dir.path() / "whole");
    const std::vector<Stages> shapes = {{.pp = 1},          {.pp = 2},          {.pp = 4, .pipeline = "gpipe"},
                                        {.pp = 2, .dp = 2}, {.pp = 2, .tp = 2}, {.pp = 1, .dp = 2}};
    for (std::size_t i = 0; i < shapes.size(); ++i) {
        const std::filesystem::path run = dir.path() / std::to_string(i);
        const Stages& first = shapes[i];
        const Stages& second = shapes[(i + 1) % shapes.size()];
        train_ranks(staged(recipe, first), first.ranks(), run);
        std::filesystem::remove_all(run / "checkpoints/21");
        const RankRuns resumed = train_ranks(staged(recipe, second), second.ranks(), run, "auto");
        EXPECT_EQ(resumed.results[0].resumed_from_step, 14);
        expect_alike(dir.path() / "whole", run, 1e-5);
    }
}

// What `stoker plan` measures: a micro-batch of a copy, and the whole model.
TEST(PipelineRuns, TheMeasuredRankHasTheSamplesOfItsCopy) {
    Recipe recipe = deep_recipe();
    recipe.data.train = "synth:digits?count=64";
    recipe.data.train_ops.clear();
    recipe.train.mesh = {.dp = 2, .pp = 2, .tp = 2};
    const MeasuredRank rank = measure_rank_step(recipe, {.ranks = 8, .rounds = 1});
    EXPECT_EQ(rank.samples, 16 / 2);
    EXPECT_EQ(rank.micro_batch(), 2) << "of four";
    EXPECT_EQ(rank.blocks.size(), 5U);
}

TEST(PipelineRuns, BadSamplesOfACopyCountOnce) {
    const TempDir dir;
    EXPECT_THAT(as_ranks(4,
                         [&](const auto& group) {
                             auto source = std::make_shared<testing::SquareDataset>(testing::kOddSamples);
                             source->before_read = [](std::int64_t index) {
                                 if (index % 20 == 7) {  // five of them
                                     throw DataError({.path = "squares"},
                                                     {.where = "test", .expected = "a good one", .got = "none"});
                                 }
                             };
                             Recipe recipe = staged(deep_recipe(1), {.pp = 2, .dp = 2});
                             recipe.data.bad_samples = {.count = 5};
                             Trainer trainer(recipe, {source, nullptr}, nullptr, OptimizerKernel::fused, false, group);
                             EXPECT_EQ(trainer.fit({.out = dir.path() / "run"}).epochs.at(0).bad_samples, 5);
                         }),
                Each(""));
    std::ifstream in(dir.path() / "run/quarantine.jsonl");
    std::int64_t lines = 0;
    for (std::string line; std::getline(in, line); ++lines) {
    }
    EXPECT_EQ(lines, 5) << "all stages of a copy read the same samples";
}

TEST(PipelineRuns, RecordTheCutAndTheBubble) {
    const Recipe recipe = staged(deep_recipe(1), {.pp = 2});
    std::mutex mutex;
    std::int64_t parameters = 0;  // of both stages
    EXPECT_THAT(as_ranks(2,
                         [&](const auto& group) {
                             Trainer trainer(recipe, odd_data(), nullptr, OptimizerKernel::fused, false, group);
                             ASSERT_TRUE(trainer.stage());
                             const StagePartition& partition = trainer.stage()->partition;
                             EXPECT_EQ(partition.blocks, (std::vector<std::string>{"fc1", "fc2", "fc3", "fc4", "fc5"}));
                             EXPECT_THAT(partition.seconds, Each(::testing::Gt(0)));
                             {
                                 const std::lock_guard lock(mutex);
                                 for (const auto& [name, tensor] : trainer.model().parameters()) {
                                     parameters += tensor.numel();
                                 }
                             }
                             std::string facts;
                             const TrainResult done = trainer.fit({.on_record = [&](const std::string& line) {
                                 facts += line.find("\"facts\"") != std::string::npos ? line : "";
                             }});
                             EXPECT_THAT(facts, HasSubstr(partition_text(partition)));
                             const std::optional<Bubble>& bubble = done.epochs.at(0).bubble;
                             ASSERT_TRUE(bubble);
                             EXPECT_DOUBLE_EQ(bubble->formula, bubble_share(2, 4));
                             ASSERT_EQ(bubble->stages.size(), 2U);
                             EXPECT_THAT(bubble->stages, Each(::testing::AllOf(::testing::Gt(0), ::testing::Lt(1))));
                             std::lock_guard lock(mutex);
                             EXPECT_EQ(trainer.parameters(),
                                       16 * 16 + 16 + 16 * 12 + 12 + 12 * 12 + 12 + 12 * 8 + 8 + 8 * 4 + 4);
                         }),
                Each(""));
    EXPECT_EQ(parameters, 16 * 16 + 16 + 16 * 12 + 12 + 12 * 12 + 12 + 12 * 8 + 8 + 8 * 4 + 4)
        << "each is on one stage";
}

TEST(PipelineRuns, WhatCannotBeCutIsRefused) {
    const auto refused = [](const Recipe& recipe, int ranks) {
        return as_ranks(ranks, [&](const auto& group) {
            Trainer trainer(recipe, odd_data(), nullptr, OptimizerKernel::fused, false, group);
        });
    };
    Recipe recipe = staged(deep_recipe(), {.pp = 2});
    EXPECT_THAT(refused(recipe, 3), Each(HasSubstr("[train.mesh] expected 2 processes for dp = 1, pp = 2, tp = 1")));
    recipe.model.hidden = {};
    EXPECT_THAT(refused(recipe, 2),
                Each(HasSubstr("[train.mesh.pp] expected at most 1, the blocks of the model with trained parameters")));
    recipe = staged(deep_recipe(), {.pp = 4});
    recipe.model.freeze = {"fc2.*", "fc3.*"};
    EXPECT_THAT(refused(recipe, 4), Each(HasSubstr("[train.mesh.pp] expected at most 3")));
    EXPECT_THAT(as_ranks(2,
                         [](const auto& group) {
                             Trainer trainer(staged(deep_recipe(), {.pp = 2}), odd_data(),
                                             std::make_unique<testing::LinearModel>(), OptimizerKernel::fused, false,
                                             group);
                         }),
                Each(HasSubstr("[train.mesh.pp] expected 1, except for Stoker's own models")));
}

// Predicts the next token from the one before: an embedding, and a layer.
class TokenModel final : public Model {
  public:
    TokenModel() {
        at::Generator generator = make_generator(4);
        table_ = parameter("table", at::randn({testing::kVocabulary, 8}, generator));
        weight_ = parameter("weight", at::randn({testing::kVocabulary, 8}, generator));
    }
    at::Tensor forward(const at::Tensor& input) override { return at::linear(at::embedding(table_, input), weight_); }
    std::vector<ModelBlock> blocks() const override {
        return {{.name = "embedding",
                 .tensors = {"table"},
                 .forward = [this](const at::Tensor& tokens) { return at::embedding(table_, tokens); }},
                {.name = "layer", .tensors = {"weight"}, .forward = [this](const at::Tensor& x) {
                     return at::linear(x, weight_);
                 }}};
    }

  private:
    at::Tensor table_;   // (K, 8)
    at::Tensor weight_;  // (K, 8)
};

// Its input are tokens, also where the samples have images too.
TEST(PipelineRuns, AnOwnLanguageModelIsEvaluatedAsInOneProcess) {
    Recipe recipe = small_recipe(2);
    recipe.task = "language";
    recipe.data.train_ops = {};
    const auto fit = [](const Recipe& trained, const std::shared_ptr<Group>& group) {
        const RecipeData data{.train = std::make_shared<testing::TaskDataset>(100, FieldKind::tokens),
                              .val = std::make_shared<testing::TaskDataset>(40, FieldKind::tokens, 2)};
        return Trainer(trained, data, std::make_unique<TokenModel>(), OptimizerKernel::fused, false, group).fit();
    };
    const TrainResult one = fit(recipe, std::make_shared<Group>());
    const auto ends_alike = [&](const std::shared_ptr<Group>& group) {
        const TrainResult result = fit(staged(recipe, {.pp = 2}), group);
        EXPECT_NEAR(result.epochs.back().val_loss.value(), one.epochs.back().val_loss.value(), 1e-5);
    };
    EXPECT_THAT(as_ranks(2, ends_alike), Each(""));
}

// As training has divided them, by times that differ from run to run.
std::vector<BlockCost> cut_into(std::vector<BlockCost> blocks, const std::vector<std::size_t>& counts) {
    auto block = blocks.begin();
    for (const std::size_t count : counts) {
        for (std::size_t i = 0; i < count; ++i, ++block) {
            block->seconds = 1 / static_cast<double>(count);
        }
    }
    EXPECT_EQ(block, blocks.end());
    return blocks;
}

// The bytes of a stage's tensors in its steps beyond its weights: gradients, and the activations of `stoker plan`. The
// narrow layers of a large batch have small gradients.
TEST(PipelineRuns, HoldWhatThePlanSays) {
    at::set_num_threads(1);
    testing::CountedMemory& memory = testing::CountedMemory::instance();
    Recipe recipe = testing::counted_recipe(4096, std::vector<std::int64_t>(15, 64));
    recipe.train.accumulate = 8;
    for (const int stages : {2, 4}) {
        const MeasuredRank rank = measure_rank_step(recipe, {.ranks = stages, .rounds = 1});
        for (const char* const order : {"1f1b", "gpipe"}) {
            std::vector<std::int64_t> peaks(static_cast<std::size_t>(stages));
            std::vector<std::size_t> counts(peaks.size());
            const auto train = [&](const std::shared_ptr<Group>& group) {
                Trainer trainer(staged(recipe, {.pp = stages, .pipeline = order}),
                                {open_train_data(recipe.data).train, nullptr}, nullptr, OptimizerKernel::fused, false,
                                group);
                const auto stage = static_cast<std::size_t>(group->rank());
                counts[stage] = trainer.model().trainable_parameters().size() / 2;  // weight and bias
                memory.begin_peak_of_thread();
                trainer.fit();
                peaks[stage] = memory.peak_of_thread();
            };
            EXPECT_THAT(as_ranks(stages, train), Each(""));
            const PipelineShape shape{.stages = stages,
                                      .micro_batches = recipe.train.accumulate,
                                      .samples = 512 / static_cast<double>(rank.micro_batch())};
            const PipelineCost plan = predict_pipeline(cut_into(rank.blocks, counts), shape, {});
            for (std::size_t stage = 0; stage < peaks.size(); ++stage) {
                const StageMemory& of = plan.memory[stage];
                const std::int64_t planned =
                    of.gradients + (order == std::string("gpipe") ? of.activations_gpipe : of.activations_1f1b);
                EXPECT_NEAR(static_cast<double>(peaks[stage]) / static_cast<double>(planned), 1, 0.1)
                    << stages << " stages, " << order << ", stage " << stage << " with " << counts[stage]
                    << " blocks: " << peaks[stage] << " of " << planned;
            }
        }
    }
}

}  // namespace
}  // namespace stoker
