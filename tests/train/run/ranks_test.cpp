// Several ranks train what one rank trains: the same batches, losses, weights and figures, with all parts of a step.
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "stoker/train/step/step.h"
#include "train/run/rank_runs.h"

namespace stoker {
namespace {

using ::testing::AllOf;
using testing::as_ranks;
using ::testing::Each;
using ::testing::ElementsAre;
using testing::expect_alike;
using testing::expect_equal_ranks;
using ::testing::HasSubstr;
using testing::kOddSamples;
using testing::odd_data;
using testing::RankRuns;
using testing::small_recipe;
using testing::SquareDataset;
using testing::TempDir;
using testing::train_ranks;

// With the size of the own part the gradients would be those of a batch as many times as large.
TEST(Ranks, AStepIsToldTheSamplesOfAllRanks) {
    const auto work = [](const std::shared_ptr<Group>& group) {
        testing::LinearModel model;
        Optimizer optimizer(model.parameters(), {.name = "sgd", .lr = 0.01});
        Account account;
        const std::unique_ptr<Step> step =
            make_step({model, optimizer, account, at::kCPU, {.compile = false}, {.data = group.get()}});
        step->run({.input = at::zeros({2, 1, 4, 4}), .target = at::zeros({2}, at::kLong)}, 0.01);
    };
    EXPECT_THAT(as_ranks(2, work), Each(HasSubstr("[Step::run] expected the size of the batch over all ranks")));
    EXPECT_THAT(as_ranks(1, work), Each(""));
}

struct RanksCase {
    const char* name;
    int ranks;
    void (*change)(Recipe&);
    double tolerance = 1e-6;
};

void PrintTo(const RanksCase& given, std::ostream* out) {
    *out << given.name;
}

class Ranks : public ::testing::TestWithParam<RanksCase> {};

TEST_P(Ranks, TrainWhatOneTrains) {
    const TempDir dir;
    const auto& [name, ranks, change, tolerance] = GetParam();
    Recipe recipe = small_recipe(3);
    recipe.optimizer.name = "sgd";
    recipe.optimizer.momentum = 0.9;
    change(recipe);
    train_ranks(recipe, 1, dir.path() / "one");
    const RankRuns run = train_ranks(recipe, ranks, dir.path() / "several");
    expect_alike(dir.path() / "one", dir.path() / "several", tolerance);
    expect_equal_ranks(run);
}

// A rank's slice of a small batch has a larger weight, so with a large scale it overflows where the whole batch does
// not.
void with_fp16(Recipe& recipe) {
    recipe.train.precision = "fp16";
    recipe.train.loss_scale = 1024;
}

void with_mixing(Recipe& recipe) {
    recipe.train.mixup = 0.4;
    recipe.train.cutmix = 1;
}

// The last batch has one sample; batch norm needs more.
void with_synced_norms(Recipe& recipe) {
    recipe.model.name = "convnet";
    recipe.data.drop_last = true;
    recipe.train.sync_batch_norm = true;
}

void with_recomputed_norms(Recipe& recipe) {
    with_synced_norms(recipe);
    recipe.train.gradient_checkpointing = true;
    recipe.train.ema = 0.9;
}

template <char kType>
void with_gradients_in(Recipe& recipe) {
    recipe.train.compress_gradients = kType == 'b' ? "bf16" : "fp16";
}

void with_shards(Recipe& recipe) {
    recipe.train.shard = "optimizer";
    recipe.train.accumulate = 2;
    recipe.train.clip_norm = 0.05;
    recipe.train.ema = 0.9;
}

void with_sharded_adam(Recipe& recipe) {
    with_shards(recipe);
    recipe.optimizer.name = "adamw";
    recipe.optimizer.weight_decay = 0.1;
    recipe.optimizer.no_decay = {"norms_and_biases"};
}

constexpr double kNorms = 1e-5;  // one layer is equal to 1e-6 (sync_batch_norm_test.cpp)
constexpr double kHalf = 2e-2;
INSTANTIATE_TEST_SUITE_P(Each, Ranks,
                         ::testing::Values(RanksCase{"plain", 2, [](Recipe&) {}}, RanksCase{"four", 4, [](Recipe&) {}},
                                           RanksCase{"adam", 2, [](Recipe& r) { r.optimizer.name = "adam"; }, 1e-5},
                                           RanksCase{"accumulate", 2, [](Recipe& r) { r.train.accumulate = 3; }},
                                           RanksCase{"smoothing", 2, [](Recipe& r) { r.train.label_smoothing = 0.1; }},
                                           RanksCase{"clipping", 2, [](Recipe& r) { r.train.clip_norm = 0.05; }},
                                           RanksCase{"ema", 2, [](Recipe& r) { r.train.ema = 0.9; }},
                                           RanksCase{"mixup", 2, [](Recipe& r) { r.train.mixup = 0.4; }},
                                           RanksCase{"cutmix", 4, [](Recipe& r) { r.train.cutmix = 1; }},
                                           RanksCase{"mixup_and_cutmix", 4, with_mixing},
                                           RanksCase{"sync_batch_norm", 2, with_synced_norms, kNorms},
                                           RanksCase{"sync_batch_norm_of_four", 4, with_synced_norms, kNorms},
                                           RanksCase{"sync_batch_norm_recomputed", 4, with_recomputed_norms, kNorms},
                                           RanksCase{"bf16_gradients", 2, with_gradients_in<'b'>, kHalf},
                                           RanksCase{"fp16_gradients", 4, with_gradients_in<'f'>, kHalf},
                                           RanksCase{"sharded", 2, with_shards},
                                           RanksCase{"sharded_over_four", 4, with_shards},
                                           RanksCase{"sharded_adam", 4, with_sharded_adam, 1e-5},
                                           RanksCase{"frozen", 2, [](Recipe& r) { r.model.freeze = {"fc1.*"}; }},
                                           RanksCase{"fp16", 2, with_fp16, kHalf},
                                           RanksCase{"bf16", 2, [](Recipe& r) { r.train.precision = "bf16"; }, kHalf}),
                         [](const auto& given) { return given.param.name; });

// From one rank to two and back, each time in the middle of an epoch.
TEST(RanksResume, AnyNumberGoesOn) {
    const TempDir dir;
    Recipe recipe = small_recipe(3);
    recipe.optimizer.name = "sgd";
    recipe.train.checkpoint_every = {.count = 5, .epochs = false};
    train_ranks(recipe, 1, dir.path() / "whole");
    for (const int first : {1, 2}) {
        const auto run = dir.path() / std::to_string(first);
        train_ranks(recipe, first, run);
        for (const char* later : {"20", "21"}) {  // as if it was killed after step 15
            std::filesystem::remove_all(run / "checkpoints" / later);
        }
        const RankRuns resumed = train_ranks(recipe, 3 - first, run, "auto");
        EXPECT_EQ(resumed.results[0].resumed_from_step, 15);
        expect_alike(dir.path() / "whole", run, 1e-6);
        expect_equal_ranks(resumed);
    }
}

// A run on `ranks` processes of whose three epochs the first two are done.
void resume_with(const Recipe& recipe, int ranks, const std::filesystem::path& from, const std::filesystem::path& to) {
    std::filesystem::copy(from, to, std::filesystem::copy_options::recursive);
    std::filesystem::remove_all(to / "checkpoints/21");
    EXPECT_EQ(train_ranks(recipe, ranks, to, "auto").results[0].resumed_from_step, 14);
}

// Sums of three numbers depend on their order, and that on a gradient's place in its bucket. A third of a number is
// another one by division than by multiplication.
TEST(RanksResume, OfThreeGoesOnBitForBit) {
    const TempDir dir;
    Recipe recipe = small_recipe(3);
    recipe.data.batch_size = 15;
    for (const std::int64_t accumulate : {1, 2}) {
        recipe.train.accumulate = accumulate;
        const std::filesystem::path runs = dir.path() / std::to_string(accumulate);
        train_ranks(recipe, 3, runs / "whole");
        resume_with(recipe, 3, runs / "whole", runs / "resumed");
        for (const char* file : {"model", "optimizer"}) {
            const std::string in_run = fmt::format("checkpoints/21/{}.safetensors", file);
            EXPECT_EQ(testing::text_of(runs / "resumed" / in_run), testing::text_of(runs / "whole" / in_run)) << file;
        }
    }
}

// Sharding changes no bit of the ranks' results, and its checkpoint is an ordinary one: any number of ranks resumes
// from it, with shards or without.
TEST(RanksShards, ChangeNoBit) {
    const TempDir dir;
    Recipe plain = small_recipe(3);
    plain.model.name = "convnet";
    plain.data.drop_last = true;
    plain.train.clip_norm = 0.5;
    plain.train.ema = 0.9;
    Recipe sharded = plain;
    sharded.train.shard = "optimizer";
    for (const char* name : {"sgd", "adam"}) {
        plain.optimizer.name = sharded.optimizer.name = name;
        plain.optimizer.momentum = sharded.optimizer.momentum = 0.9;
        const std::filesystem::path run = dir.path() / name;
        const RankRuns whole = train_ranks(plain, 2, run / "plain");
        const RankRuns divided = train_ranks(sharded, 2, run / "sharded");
        EXPECT_EQ(testing::figures(divided.results[0].epochs), testing::figures(whole.results[0].epochs));
        expect_equal_ranks(divided);
        EXPECT_TRUE(testing::same_weights(divided.weights[0], whole.weights[0]));
        for (const char* file : {"model", "optimizer", "ema"}) {
            const std::string in_run = fmt::format("checkpoints/18/{}.safetensors", file);
            EXPECT_EQ(testing::text_of(run / "sharded" / in_run), testing::text_of(run / "plain" / in_run)) << file;
        }
    }
}

// The losses of 56 steps; after each epoch the ranks compare all weights and buffers bit by bit.
std::vector<double> sharded_losses(int ranks) {
    Recipe recipe = small_recipe(8);
    recipe.optimizer.name = "sgd";
    recipe.optimizer.momentum = 0.9;
    with_shards(recipe);
    return testing::step_losses(recipe, ranks, [](Trainer& trainer, const Group& group) {
        for (const auto& [name, tensor] : trainer.model().state()) {
            const at::Tensor all = group.all_gather(tensor.detach());
            EXPECT_TRUE(all.eq(all[0]).all().item<bool>()) << name;
        }
    });
}

TEST(RanksShards, FiftyStepsAreThoseOfOneProcess) {
    const std::vector<double> one = sharded_losses(1);
    ASSERT_EQ(one.size(), 56U);
    for (const int ranks : {2, 4}) {
        const std::vector<double> several = sharded_losses(ranks);
        ASSERT_EQ(several.size(), one.size());
        for (std::size_t step = 0; step < one.size(); ++step) {
            EXPECT_NEAR(several[step] / one[step], 1, 1e-6) << "step " << step << " of " << ranks << " ranks";
        }
    }
}

TEST(RanksShards, AnyNumberGoesOn) {
    const TempDir dir;
    Recipe plain = small_recipe(3);
    Recipe sharded = plain;
    sharded.train.shard = "optimizer";
    train_ranks(sharded, 4, dir.path() / "four");
    for (const int ranks : {1, 2, 4}) {
        for (const bool shards : {false, true}) {
            const std::filesystem::path run = dir.path() / fmt::format("{}_{}", ranks, shards);
            resume_with(shards ? sharded : plain, ranks, dir.path() / "four", run);
            expect_alike(dir.path() / "four", run, 1e-5);
        }
    }
    EXPECT_EQ(testing::metrics_of(dir.path() / "four"), testing::metrics_of(dir.path() / "4_true"));
    EXPECT_EQ(testing::metrics_of(dir.path() / "4_false"), testing::metrics_of(dir.path() / "4_true"));
}

// After an interrupt on one rank all stop at the same step, and the resumed run equals the uninterrupted one.
TEST(RanksResume, AnInterruptOnOneStopsAll) {
    const TempDir dir;
    Recipe recipe = small_recipe(3);
    recipe.optimizer.name = "sgd";
    train_ranks(recipe, 2, dir.path() / "whole");
    std::vector<TrainResult> stopped(2);
    EXPECT_THAT(as_ranks(2,
                         [&](const auto& group) {
                             Trainer trainer(recipe, odd_data(), nullptr, OptimizerKernel::fused, false, group);
                             std::atomic<int> interrupt = 0;
                             FitOptions fit{.out = dir.path() / "run", .interrupt = &interrupt};
                             std::int64_t steps = 0;
                             fit.on_step = [&](const Progress&) {
                                 interrupt = ++steps == 9 && group->rank() == 1 ? 15 : 0;
                             };
                             stopped[static_cast<std::size_t>(group->rank())] = trainer.fit(fit);
                         }),
                Each(""));
    for (const TrainResult& result : stopped) {
        EXPECT_TRUE(result.interrupted);
        EXPECT_EQ(result.signal, 15);
        EXPECT_EQ(result.steps, 10) << "the vote takes one step";
    }
    train_ranks(recipe, 2, dir.path() / "run", "auto");
    EXPECT_EQ(testing::metrics_of(dir.path() / "run"), testing::metrics_of(dir.path() / "whole"));
}

// srun sends a signal to every rank, and each notices it at another step.
TEST(RanksSaveRequest, OfAllRanksIsOne) {
    const TempDir dir;
    Recipe recipe = small_recipe(3);
    recipe.optimizer.name = "sgd";
    std::vector<std::int64_t> saved;
    EXPECT_THAT(as_ranks(2,
                         [&](const auto& group) {
                             Trainer trainer(recipe, odd_data(), nullptr, OptimizerKernel::fused, false, group);
                             std::atomic<int> saves = 0;
                             FitOptions fit{.out = dir.path() / "run", .save = &saves};
                             std::int64_t steps = 0;
                             fit.on_step = [&](const Progress&) {
                                 ++steps;
                                 saves = steps >= 10 ? 2 : steps >= (group->first() ? 3 : 5) ? 1 : 0;
                             };
                             if (group->first()) {
                                 fit.on_save = [&](std::int64_t step) { saved.push_back(step); };
                             }
                             trainer.fit(fit);
                         }),
                Each(""));
    EXPECT_THAT(saved, ElementsAre(4, 11)) << "a vote counts one step later";
}

// The statistics of batch norm are of each rank's samples; rank 0's running statistics count on all ranks.
TEST(RanksBuffers, AreTheFirstRanksAfterEveryStep) {
    const TempDir dir;
    Recipe recipe = small_recipe(2);
    recipe.model.name = "convnet";
    recipe.data.drop_last = true;
    recipe.train.ema = 0.9;
    expect_equal_ranks(train_ranks(recipe, 2, dir.path() / "run"));
    EXPECT_THAT(
        as_ranks(
            2,
            [&](const auto& group) {
                Trainer trainer(recipe, {odd_data().train, nullptr}, nullptr, OptimizerKernel::fused, false, group);
                trainer.fit();
                for (const auto& [name, tensor] : trainer.model().buffers()) {
                    const at::Tensor all = group->all_gather(tensor);
                    EXPECT_TRUE(at::equal(all[0], all[1])) << name;
                }
            }),
        Each(""));
}

TEST(RanksBuffers, AreTheFirstRanksWhereTheyCount) {
    EXPECT_THAT(as_ranks(2,
                         [](const auto& group) {
                             auto model = std::make_unique<testing::LinearModel>();
                             const at::Tensor buffer = at::full({3}, group->rank(), at::kFloat);
                             model->add_buffer("running_mean", buffer);
                             testing::LinearModel* own = model.get();
                             model->before_forward = [&, own] {
                                 EXPECT_TRUE(own->training() || buffer.eq(7).all().template item<bool>());
                                 if (own->training()) {
                                     buffer.fill_(7 + group->rank());
                                 }
                             };
                             Recipe recipe = small_recipe(1);
                             recipe.train.channels_last = false;
                             Trainer trainer(recipe, odd_data(), std::move(model), OptimizerKernel::fused, false,
                                             group);
                             trainer.fit();
                         }),
                Each(""));
}

TEST(RanksBadSamples, ShareOneBudget) {
    const auto with_bad = [](std::int64_t budget) {
        return as_ranks(2, [&](const auto& group) {
            auto source = std::make_shared<SquareDataset>(kOddSamples);
            source->before_read = [](std::int64_t index) {
                if (index % 20 == 7) {  // five of them
                    throw DataError({.path = "squares"}, {.where = "test", .expected = "a good one", .got = "none"});
                }
            };
            Recipe recipe = small_recipe(1);
            recipe.data.bad_samples = {.count = budget};
            Trainer trainer(recipe, {source, nullptr}, nullptr, OptimizerKernel::fused, false, group);
            EXPECT_EQ(trainer.fit().epochs.at(0).bad_samples, 5);
        });
    };
    EXPECT_THAT(with_bad(5), Each(""));
    EXPECT_THAT(with_bad(4), Each(HasSubstr("at most 4 bad samples in an epoch, got 5 over all ranks")));
}

// They are listed even if the rank that read them fails, and a checkpoint within an epoch counts those of all ranks.
TEST(RanksBadSamples, AreOfAllRanks) {
    const TempDir dir;
    const auto train_two = [&](std::int64_t budget, bool on_both, const std::filesystem::path& out) {
        return as_ranks(2, [&](const auto& group) {
            auto source = std::make_shared<SquareDataset>(kOddSamples);
            source->before_read = [&](std::int64_t index) {
                if (index % 8 == 7 && (on_both || !group->first())) {  // twelve of them
                    throw DataError({.path = "squares"}, {.where = "test", .expected = "a good one", .got = "none"});
                }
            };
            Recipe recipe = small_recipe(1);
            recipe.data.bad_samples = {.count = budget};
            recipe.train.checkpoint_every = {.count = 6, .epochs = false};
            Trainer trainer(recipe, {source, nullptr}, nullptr, OptimizerKernel::fused, false, group);
            trainer.fit({.out = out});
        });
    };
    EXPECT_THAT(train_two(12, true, dir.path() / "good"), Each(""));
    const auto saved = nlohmann::json::parse(testing::text_of(dir.path() / "good/checkpoints/6/state.json"));
    EXPECT_GE(saved["loader"]["bad_samples"], 11) << "the seventh batch has one sample";
    EXPECT_EQ(saved["loader"]["bad_samples"], saved["epoch_so_far"]["bad_samples"]);

    const auto errors = train_two(1, false, dir.path() / "bad");
    EXPECT_THAT(errors[1], HasSubstr("at most 1 bad sample in an epoch"));
    EXPECT_THAT(testing::text_of(dir.path() / "bad/quarantine.jsonl"), HasSubstr(R"("rank":1)"));
}

// The losses of several ranks are first summed after 50 steps. A run that fails before that still leaves its folder.
TEST(RanksFailure, ARunWithStepsKeepsItsFolder) {
    const TempDir dir;
    const auto errors = as_ranks(2, [&](const auto& group) {
        Trainer trainer(small_recipe(1), odd_data(), nullptr, OptimizerKernel::fused, false, group);
        std::int64_t steps = 0;
        FitOptions options{.out = dir.path() / "run"};
        options.on_step = [&](const Progress&) {
            if (++steps == 3) {
                throw std::runtime_error("no more");
            }
        };
        trainer.fit(options);
    });
    EXPECT_THAT(errors[0], HasSubstr("no more"));
    EXPECT_TRUE(std::filesystem::exists(dir.path() / "run/recipe.toml"));
    EXPECT_THAT(testing::text_of(dir.path() / "run/failed.json"), HasSubstr("no more"));
}

TEST(RanksMemory, TooLittleEndsTheRun) {
    const auto errors = as_ranks(2, [](const auto& group) {
        const Recipe recipe = small_recipe(1);
        auto model = std::make_unique<testing::LinearModel>();
        bool trains = false;  // not while the model is checked
        model->before_forward = [&] {
            if (trains && group->rank() == 1) {
                at::empty({std::int64_t{1} << 50}, at::kByte);  // more memory than any machine has
            }
        };
        Trainer trainer(recipe, odd_data(), std::move(model), OptimizerKernel::fused, false, group);
        trains = true;
        trainer.fit();
    });
    EXPECT_THAT(errors[1], HasSubstr("set train.accumulate to 2"));
    EXPECT_THAT(errors[0], HasSubstr("expected all 2 ranks to continue"));
}

}  // namespace
}  // namespace stoker
