// Ranks that hold shards of the parameters train what one process trains, and what ranks with whole parameters train.
#include <ATen/Parallel.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/ones.h>
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "stoker/train/rank_step.h"
#include "support/counted_memory.h"
#include "support/slow.h"
#include "train/run/rank_runs.h"

namespace stoker {
namespace {

using testing::as_ranks;
using ::testing::Each;
using testing::expect_alike;
using ::testing::HasSubstr;
using testing::RankRuns;
using testing::same_weights;
using testing::small_recipe;
using testing::TempDir;
using testing::train_ranks;

// Four blocks; the weights of the first are in all shards, the biases of the last in one.
Recipe four_blocks(std::int64_t epochs = 3) {
    Recipe recipe = small_recipe(epochs);
    recipe.model.hidden = {24, 16, 12};
    recipe.optimizer.name = "sgd";
    recipe.optimizer.momentum = 0.9;
    return recipe;
}

Recipe fully_sharded(Recipe recipe) {
    recipe.train.shard = "full";
    return recipe;
}

struct FullCase {
    const char* name;
    int ranks;
    void (*change)(Recipe&);
    double tolerance = 1e-6;
};

void PrintTo(const FullCase& given, std::ostream* out) {
    *out << given.name;
}

class FullShards : public ::testing::TestWithParam<FullCase> {};

TEST_P(FullShards, TrainWhatOneTrains) {
    const TempDir dir;
    const auto& [name, ranks, change, tolerance] = GetParam();
    Recipe recipe = four_blocks();
    recipe.data.batch_size = ranks == 3 ? 15 : 16;
    change(recipe);
    train_ranks(recipe, 1, dir.path() / "one");
    const RankRuns run = train_ranks(fully_sharded(recipe), ranks, dir.path() / "several");
    expect_alike(dir.path() / "one", dir.path() / "several", tolerance);
    for (const TrainResult& result : run.results) {
        EXPECT_EQ(testing::figures(result.epochs), testing::figures(run.results[0].epochs));
    }
}

void full_parts(Recipe& recipe) {
    recipe.train.accumulate = 2;
    recipe.train.clip_norm = 0.05;
    recipe.train.clip_value = 0.04;
    recipe.train.ema = 0.9;
    recipe.train.mixup = 0.4;
}

void full_adamw(Recipe& recipe) {
    full_parts(recipe);
    recipe.optimizer.name = "adamw";
    recipe.optimizer.weight_decay = 0.1;
    recipe.optimizer.no_decay = {"norms_and_biases"};
}

// The last batch has one sample; batch norm needs more.
void full_synced(Recipe& recipe) {
    recipe.model.name = "convnet";
    recipe.data.drop_last = true;
    recipe.train.sync_batch_norm = true;
}

void full_recomputed(Recipe& recipe) {
    full_synced(recipe);
    recipe.train.gradient_checkpointing = true;
    recipe.train.ema = 0.9;
}

void full_fp16(Recipe& recipe) {
    recipe.train.precision = "fp16";
    recipe.train.loss_scale = 1024;
}

constexpr double kFullNorms = 1e-5;
constexpr double kFullHalf = 2e-2;
INSTANTIATE_TEST_SUITE_P(
    Each, FullShards,
    ::testing::Values(FullCase{"two", 2, [](Recipe&) {}}, FullCase{"three", 3, [](Recipe&) {}},
                      FullCase{"four", 4, [](Recipe&) {}},
                      FullCase{"one_layer", 4, [](Recipe& r) { r.model.hidden.clear(); }},
                      FullCase{"accumulate", 4, [](Recipe& r) { r.train.accumulate = 3; }},
                      FullCase{"clipping", 3, [](Recipe& r) { r.train.clip_norm = 0.05; }},
                      FullCase{"ema", 2, [](Recipe& r) { r.train.ema = 0.9; }}, FullCase{"all_parts", 4, full_parts},
                      FullCase{"adamw", 4, full_adamw, 1e-5},
                      FullCase{"frozen_begin", 2,
                               [](Recipe& r) {
                                   r.model.freeze = {"fc1.*", "fc2.weight"};
                               }},
                      FullCase{"frozen_end", 4,
                               [](Recipe& r) {
                                   r.model.freeze = {"fc2.*", "fc4.*"};
                                   r.train.clip_norm = 0.05;
                               }},
                      FullCase{"sync_batch_norm", 2, full_synced, kFullNorms},
                      FullCase{"recomputed", 4, full_recomputed, kFullNorms},
                      FullCase{"bf16_gradients", 2, [](Recipe& r) { r.train.compress_gradients = "bf16"; }, kFullHalf},
                      FullCase{"fp16_gradients", 4, [](Recipe& r) { r.train.compress_gradients = "fp16"; }, kFullHalf},
                      FullCase{"fp16", 2, full_fp16, kFullHalf},
                      FullCase{"bf16", 4, [](Recipe& r) { r.train.precision = "bf16"; }, kFullHalf}),
    [](const auto& given) { return given.param.name; });

struct RecordedRun {
    std::vector<double> losses;                     // of each step
    std::vector<std::vector<NamedTensor>> weights;  // after each epoch
};

RecordedRun record_run(const Recipe& recipe, int ranks) {
    RecordedRun all;
    all.losses = testing::step_losses(recipe, ranks, [&](Trainer& trainer, const Group& group) {
        std::vector<NamedTensor> weights = trainer.gather_model();
        if (group.first()) {
            for (NamedTensor& entry : weights) {
                entry.tensor = entry.tensor.detach().clone();
            }
            all.weights.push_back(std::move(weights));
        }
    });
    return all;
}

// Two ranks add the same two numbers, in either order. More add in the order of a gradient's place in the message,
// which differs; then weights differ by rounding.
TEST(FullShardRuns, LossesAndWeightsAreThoseOfWholeParameters) {
    for (const int ranks : {1, 2, 3, 4}) {
        Recipe recipe = four_blocks(4);
        recipe.data.batch_size = ranks == 3 ? 15 : 16;
        const RecordedRun one = record_run(recipe, 1);
        const RecordedRun whole = record_run(recipe, ranks);
        const RecordedRun sharded = record_run(fully_sharded(recipe), ranks);
        ASSERT_EQ(sharded.losses.size(), one.losses.size());
        ASSERT_GE(one.losses.size(), 20U);
        for (std::size_t step = 0; step < one.losses.size(); ++step) {
            EXPECT_NEAR(sharded.losses[step] / one.losses[step], 1, 1e-6) << "step " << step << " of " << ranks;
        }
        ASSERT_EQ(sharded.weights.size(), 4U);
        for (std::size_t epoch = 0; epoch < 4; ++epoch) {
            if (ranks <= 2) {
                EXPECT_TRUE(same_weights(sharded.weights[epoch], whole.weights[epoch])) << epoch << " of " << ranks;
                continue;
            }
            for (std::size_t i = 0; i < whole.weights[epoch].size(); ++i) {
                const auto& [name, tensor] = sharded.weights[epoch][i];
                EXPECT_EQ(name, whole.weights[epoch][i].name);
                EXPECT_TRUE(at::allclose(tensor, whole.weights[epoch][i].tensor, 1e-6, 1e-6)) << name << " " << ranks;
            }
        }
    }
}

// Files of two ranks, byte for byte, with convolutions whose weights are in another order in memory.
TEST(FullShardRuns, CheckpointsAreThoseOfWholeParameters) {
    const TempDir dir;
    Recipe recipe = small_recipe(3);
    recipe.model.name = "convnet";
    recipe.data.drop_last = true;
    recipe.train.ema = 0.9;
    for (const char* name : {"sgd", "adam"}) {
        recipe.optimizer.name = name;
        recipe.optimizer.momentum = 0.9;
        const std::filesystem::path run = dir.path() / name;
        const RankRuns whole = train_ranks(recipe, 2, run / "whole");
        const RankRuns sharded = train_ranks(fully_sharded(recipe), 2, run / "full");
        EXPECT_EQ(testing::figures(sharded.results[1].epochs), testing::figures(whole.results[0].epochs));
        for (const char* file : {"model", "optimizer", "ema"}) {
            const std::string in_run = fmt::format("checkpoints/18/{}.safetensors", file);
            EXPECT_TRUE(testing::text_of(run / "full" / in_run) == testing::text_of(run / "whole" / in_run)) << file;
            EXPECT_GT(testing::text_of(run / "full" / in_run).size(), 1000U);
        }
    }
}

// From any number of ranks to any other, and from each train.shard to another.
TEST(FullShardRuns, AnyRanksGoOn) {
    STOKER_SLOW_TEST();
    const TempDir dir;
    Recipe recipe = four_blocks();
    recipe.optimizer.name = "adam";
    recipe.train.ema = 0.9;
    recipe.data.batch_size = 12;
    train_ranks(recipe, 1, dir.path() / "whole");
    const std::vector<std::pair<int, const char*>> shapes = {{1, "full"},      {2, "full"},      {3, "full"},
                                                             {4, "none"},      {4, "full"},      {2, "full"},
                                                             {2, "optimizer"}, {3, "optimizer"}, {3, "full"}};
    for (std::size_t i = 0; i < shapes.size(); ++i) {
        const std::filesystem::path run = dir.path() / std::to_string(i);
        const auto shaped = [&](std::size_t at) {
            Recipe own = recipe;
            own.train.shard = shapes[at % shapes.size()].second;
            return own;
        };
        train_ranks(shaped(i), shapes[i].first, run);
        std::filesystem::remove_all(run / "checkpoints/27");
        const RankRuns resumed = train_ranks(shaped(i + 1), shapes[(i + 1) % shapes.size()].first, run, "auto");
        EXPECT_EQ(resumed.results[0].resumed_from_step, 18);
        expect_alike(dir.path() / "whole", run, 1e-5);
    }
}

TEST(FullShardRuns, AnOverflowOnOneRankSkipsTheStepOnAll) {
    Recipe recipe = fully_sharded(four_blocks(1));
    recipe.data.batch_size = 15;
    for (const double factor : {1.0, 1.3, 1.7}) {
        testing::expect_overflows_skip_on_all(recipe, 3, factor);
    }
}

TEST(FullShardRuns, CompressedGradientsAreRounded) {
    Recipe recipe = fully_sharded(four_blocks(1));
    const std::vector<double> exact = record_run(recipe, 2).losses;
    recipe.train.compress_gradients = "bf16";
    EXPECT_NE(record_run(recipe, 2).losses, exact);
}

// The same ranks go on with the same bits, also where a block is trained in part.
TEST(FullShardRuns, AResumedRunIsTheRunThatNeverStopped) {
    const TempDir dir;
    Recipe recipe = fully_sharded(four_blocks());
    recipe.data.batch_size = 15;
    recipe.train.ema = 0.9;
    recipe.model.freeze = {"fc2.weight"};
    train_ranks(recipe, 3, dir.path() / "whole");
    std::filesystem::copy(dir.path() / "whole", dir.path() / "resumed", std::filesystem::copy_options::recursive);
    std::filesystem::remove_all(dir.path() / "resumed/checkpoints/21");
    EXPECT_EQ(train_ranks(recipe, 3, dir.path() / "resumed", "auto").results[0].resumed_from_step, 14);
    for (const char* file : {"model", "optimizer", "ema"}) {
        const std::string in_run = fmt::format("checkpoints/21/{}.safetensors", file);
        EXPECT_TRUE(testing::text_of(dir.path() / "resumed" / in_run) ==
                    testing::text_of(dir.path() / "whole" / in_run))
            << file;
    }
}

// Without blocks, as imported models are: the whole model is one block.
TEST(FullShardRuns, AModelWithoutBlocksIsOne) {
    std::vector<double> of_one;
    for (const int ranks : {1, 2, 4}) {
        std::vector<double> losses(static_cast<std::size_t>(ranks));
        const auto work = [&](const std::shared_ptr<Group>& group) {
            Trainer trainer(fully_sharded(small_recipe(3)), testing::odd_data(),
                            std::make_unique<testing::LinearModel>(), OptimizerKernel::fused, false, group);
            losses[static_cast<std::size_t>(group->rank())] = trainer.fit().epochs.back().train_loss;
            EXPECT_EQ(trainer.evaluate().samples, testing::kOddValSamples);
        };
        if (ranks == 1) {
            work(std::make_shared<Group>());
            of_one = losses;
        } else {
            EXPECT_THAT(as_ranks(ranks, work), Each(""));
        }
        for (const double loss : losses) {
            EXPECT_NEAR(loss / of_one[0], 1, 1e-6);
        }
    }
}

TEST(FullShardRuns, AParameterWithoutGradientIsNamed) {
    EXPECT_THAT(as_ranks(2,
                         [](const auto& group) {
                             auto model = std::make_unique<testing::LinearModel>();
                             model->add_parameter("spare", at::ones({3}));
                             Trainer trainer(fully_sharded(small_recipe(1)), testing::odd_data(), std::move(model),
                                             OptimizerKernel::fused, false, group);
                             trainer.fit();
                         }),
                Each(HasSubstr("every trained parameter, as several processes need, got spare without a gradient")));
}

TEST(FullShardRuns, WeightsAreNotReadInPlace) {
    EXPECT_THAT(as_ranks(2,
                         [](const auto& group) {
                             Trainer trainer(fully_sharded(four_blocks(1)), testing::odd_data(), nullptr,
                                             OptimizerKernel::fused, false, group);
                             trainer.fit();
                             trainer.model().parameters()[0].tensor.sum();
                         }),
                Each(HasSubstr("Trainer::gather_model() brings them together")));
}

// The tensors of all ranks of one process, by the ranks; activations are small.
TEST(FullShardRuns, HoldWhatThePlanSays) {
    at::set_num_threads(1);
    testing::CountedMemory& memory = testing::CountedMemory::instance();
    Recipe recipe = testing::counted_recipe(12, std::vector<std::int64_t>(8, 256));
    recipe.optimizer.name = "adam";
    for (const int ranks : {2, 3, 4}) {
        const MeasuredRank rank = measure_rank_step(recipe, {.ranks = ranks, .rounds = 1});
        const auto planned = [&](Shard shard) {
            return divide_memory(rank.memory, {.ranks = ranks, .shard = shard}, rank.step.blocks).sum();
        };
        const TempDir dir;
        for (const char* const resume : {"", "auto"}) {
            recipe.train.epochs = *resume == '\0' ? 1 : 2;
            const std::int64_t before = memory.held();
            EXPECT_THAT(as_ranks(ranks,
                                 [&](const auto& group) {
                                     Trainer trainer(fully_sharded(recipe),
                                                     {open_train_data(recipe.data).train, nullptr}, nullptr,
                                                     OptimizerKernel::fused, *resume != '\0', group);
                                     group->barrier();
                                     memory.reset_peak();  // the whole initial weights are gone
                                     group->barrier();
                                     trainer.fit({.out = dir / "run", .resume = resume});
                                     group->barrier();
                                 }),
                        Each(""));
            const std::int64_t most = (memory.peak() - before) / ranks;
            EXPECT_LE(static_cast<double>(most), 1.1 * static_cast<double>(planned(Shard::full))) << ranks << resume;
            EXPECT_GT(static_cast<double>(most), 0.6 * static_cast<double>(planned(Shard::full))) << ranks << resume;
            EXPECT_LT(most, planned(Shard::optimizer)) << ranks << resume;
        }
    }
}

}  // namespace
}  // namespace stoker
