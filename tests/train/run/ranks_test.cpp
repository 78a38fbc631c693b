// Several ranks train what one rank trains: the same batches, losses, weights and figures, with all parts of a step.
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <gmock/gmock.h>

#include <cmath>

#include "support/ranks.h"
#include "train/support.h"

namespace stoker {
namespace {

using ::testing::AllOf;
using testing::as_ranks;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::small_recipe;
using testing::SquareDataset;
using testing::TempDir;

constexpr std::int64_t kSamples = 97;  // the seventh batch has one sample: most ranks have none
constexpr std::int64_t kValSamples = 37;

RecipeData odd_data() {
    return {std::make_shared<SquareDataset>(kSamples), std::make_shared<SquareDataset>(kValSamples, 2)};
}

struct RankRuns {
    std::vector<TrainResult> results;               // of each rank
    std::vector<std::vector<NamedTensor>> weights;  // likewise
};

RankRuns train(const Recipe& recipe, int ranks, const std::filesystem::path& out, const std::string& resume = "") {
    RankRuns run;
    run.results.resize(static_cast<std::size_t>(ranks));
    run.weights.resize(static_cast<std::size_t>(ranks));
    const auto as_one = [&](const std::shared_ptr<Group>& group) {
        Trainer trainer(recipe, odd_data(), nullptr, OptimizerKernel::fused, !resume.empty(), group);
        const auto rank = static_cast<std::size_t>(group->rank());
        run.results[rank] = trainer.fit({.out = out, .resume = resume});
        run.weights[rank] = testing::weights_of(trainer);
    };
    if (ranks == 1) {
        as_one(std::make_shared<Group>());
    } else {
        EXPECT_THAT(as_ranks(ranks, as_one), Each(""));
    }
    return run;
}

// Losses and figures may differ by rounding; all other values must be equal.
void expect_alike(const std::filesystem::path& a, const std::filesystem::path& b, double tolerance) {
    std::istringstream in_a(testing::metrics_of(a));
    std::istringstream in_b(testing::metrics_of(b));
    std::string text_a;
    std::string text_b;
    int lines = 0;
    while (std::getline(in_a, text_a) && std::getline(in_b, text_b)) {
        const auto line_a = nlohmann::json::parse(text_a);
        const auto line_b = nlohmann::json::parse(text_b);
        for (const auto& [key, value] : line_a.items()) {
            if (value.is_number_float()) {
                const double was = value.get<double>();
                EXPECT_NEAR(line_b.at(key).get<double>(), was, tolerance * std::max(1.0, std::abs(was)))
                    << key << " in " << text_a;
            } else {
                EXPECT_EQ(line_b.at(key), value) << key << " in " << text_a;
            }
        }
        ++lines;
    }
    EXPECT_EQ(lines, 3 * (testing::kStepsAnEpoch + 1));
    EXPECT_FALSE(std::getline(in_b, text_b));
}

void expect_equal_ranks(const RankRuns& run) {
    for (std::size_t rank = 1; rank < run.weights.size(); ++rank) {
        EXPECT_TRUE(testing::same_weights(run.weights[rank], run.weights[0])) << "rank " << rank;
        EXPECT_EQ(testing::figures(run.results[rank].epochs), testing::figures(run.results[0].epochs));
    }
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
    train(recipe, 1, dir.path() / "one");
    const RankRuns run = train(recipe, ranks, dir.path() / "several");
    expect_alike(dir.path() / "one", dir.path() / "several", tolerance);
    expect_equal_ranks(run);
}

// A rank's slice of a small batch has a larger weight, so with a large scale it overflows where the whole batch does
// not.
void with_fp16(Recipe& recipe) {
    recipe.train.precision = "fp16";
    recipe.train.loss_scale = 1024;
}

constexpr double kHalf = 2e-2;
INSTANTIATE_TEST_SUITE_P(Each, Ranks,
                         ::testing::Values(RanksCase{"plain", 2, [](Recipe&) {}}, RanksCase{"four", 4, [](Recipe&) {}},
                                           RanksCase{"adam", 2, [](Recipe& r) { r.optimizer.name = "adam"; }, 1e-5},
                                           RanksCase{"accumulate", 2, [](Recipe& r) { r.train.accumulate = 3; }},
                                           RanksCase{"smoothing", 2, [](Recipe& r) { r.train.label_smoothing = 0.1; }},
                                           RanksCase{"clipping", 2, [](Recipe& r) { r.train.clip_norm = 0.05; }},
                                           RanksCase{"ema", 2, [](Recipe& r) { r.train.ema = 0.9; }},
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
    train(recipe, 1, dir.path() / "whole");
    for (const int first : {1, 2}) {
        const auto run = dir.path() / std::to_string(first);
        train(recipe, first, run);
        for (const char* later : {"20", "21"}) {  // as if it was killed after step 15
            std::filesystem::remove_all(run / "checkpoints" / later);
        }
        const RankRuns resumed = train(recipe, 3 - first, run, "auto");
        EXPECT_EQ(resumed.results[0].resumed_from_step, 15);
        expect_alike(dir.path() / "whole", run, 1e-6);
        expect_equal_ranks(resumed);
    }
}

// After an interrupt on one rank all stop at the same step, and the resumed run equals the uninterrupted one.
TEST(RanksResume, AnInterruptOnOneStopsAll) {
    const TempDir dir;
    Recipe recipe = small_recipe(3);
    recipe.optimizer.name = "sgd";
    train(recipe, 2, dir.path() / "whole");
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
    train(recipe, 2, dir.path() / "run", "auto");
    EXPECT_EQ(testing::metrics_of(dir.path() / "run"), testing::metrics_of(dir.path() / "whole"));
}

// srun sends a signal to every rank, and each notices it at a step of its own.
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

// Each rank trains with its own running statistics; rank 0's are evaluated and saved.
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
            auto source = std::make_shared<SquareDataset>(kSamples);
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
            auto source = std::make_shared<SquareDataset>(kSamples);
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
        model->before_forward = [&] {
            if (group->rank() == 1) {
                at::empty({std::int64_t{1} << 50}, at::kByte);  // more memory than any machine has
            }
        };
        Trainer trainer(recipe, odd_data(), std::move(model), OptimizerKernel::fused, false, group);
        trainer.fit();
    });
    EXPECT_THAT(errors[1], HasSubstr("set train.accumulate to 2"));
    EXPECT_THAT(errors[0], HasSubstr("expected all 2 ranks to continue"));
}

// A model passed by the program, which the recipe does not describe.
TEST(RanksModel, MustBeTheSame) {
    EXPECT_THAT(
        as_ranks(
            2,
            [](const auto& group) {
                const Recipe recipe = small_recipe(1);
                ModelRecipe mlp = recipe.model;
                mlp.hidden = {group->first() ? 8 : 9};
                Trainer(recipe, odd_data(), make_model(mlp, {1, 4, 4}, 4, 1), OptimizerKernel::fused, false, group);
            }),
        ::testing::Contains(HasSubstr("expected the same model on all ranks")));
}

TEST(RanksModel, NamesParametersWithoutAGradient) {
    EXPECT_THAT(as_ranks(2,
                         [](const auto& group) {
                             auto model = std::make_unique<testing::LinearModel>();
                             model->add_parameter("spare", at::full({3}, 1.0));
                             Trainer trainer(small_recipe(1), odd_data(), std::move(model), OptimizerKernel::fused,
                                             false, group);
                             trainer.fit();
                         }),
                Each(HasSubstr("got spare without a gradient; name them in model.freeze")));
}

TEST(RanksRecipe, MustBeTheSameExceptForHostSettings) {
    const auto with = [](const std::function<void(Recipe&)>& change) {
        return as_ranks(2, [&](const auto& group) {
            Recipe recipe = small_recipe(1);
            if (!group->first()) {
                change(recipe);
            }
            Trainer(recipe, odd_data(), nullptr, OptimizerKernel::fused, false, group);
        });
    };
    EXPECT_THAT(
        with([](Recipe& recipe) { recipe.optimizer.lr = 0.5; }),
        Each("[optimizer.lr] expected 0.01, as on rank 0, got 0.5 on rank 1; start all ranks with the same recipe "
             "and data"));
    EXPECT_THAT(with([](Recipe& recipe) {
                    recipe.data.train = "elsewhere";
                    recipe.data.workers = 2;
                }),
                Each(""));
}

TEST(RanksData, MustBeTheSame) {
    for (const bool of_training : {true, false}) {
        EXPECT_THAT(as_ranks(2,
                             [&](const auto& group) {
                                 RecipeData data = odd_data();
                                 if (!group->first()) {
                                     (of_training ? data.train : data.val) = std::make_shared<SquareDataset>(90);
                                 }
                                 Trainer(small_recipe(1), data, nullptr, OptimizerKernel::fused, false, group);
                             }),
                    Each(::testing::MatchesRegex(of_training ? "\\[data.train\\] expected 97 samples.*got 90.*"
                                                             : "\\[data.val\\] expected 37 samples.*got 90.*")));
    }
}

TEST(RanksStart, MustBeTheSame) {
    const TempDir dir;
    EXPECT_THAT(as_ranks(2,
                         [&](const auto& group) {
                             Trainer trainer(small_recipe(1), odd_data(), nullptr, OptimizerKernel::fused, false,
                                             group);
                             trainer.fit({.out = dir.path() / "run", .resume = group->first() ? "" : "auto"});
                         }),
                Each(HasSubstr("[resume] expected none, as on rank 0, got auto on rank 1")));
}

// A vote that stopped one run does not stop the next.
TEST(RanksStart, ForgetsAnEarlierRunsSignal) {
    EXPECT_THAT(as_ranks(2,
                         [](const auto& group) {
                             Trainer trainer(small_recipe(1), odd_data(), nullptr, OptimizerKernel::fused, false,
                                             group);
                             const std::atomic<int> stop = 15;
                             EXPECT_TRUE(trainer.fit({.interrupt = &stop}).interrupted);
                             EXPECT_FALSE(trainer.fit().interrupted);
                         }),
                Each(""));
}

// Of a batch of one sample one rank has none.
TEST(RanksEvaluation, CountsTheTopFiveWhereOneHasNoSample) {
    EXPECT_THAT(as_ranks(2,
                         [](const auto& group) {
                             Recipe recipe = small_recipe(1);
                             recipe.model.classes = 6;
                             const RecipeData data = {std::make_shared<SquareDataset>(kSamples),
                                                      std::make_shared<SquareDataset>(1, 2)};
                             Trainer trainer(recipe, data, nullptr, OptimizerKernel::fused, false, group);
                             EXPECT_TRUE(trainer.evaluate().top5.has_value());
                         }),
                Each(""));
}

// 98 samples in batches of 16: the last batch has one sample for each of two ranks, too few for batch norm.
TEST(RanksBatch, IsLargeEnoughForTheModelToTheLast) {
    const auto train = [](bool drop_last) {
        return as_ranks(2, [=](const auto& group) {
            Recipe recipe = small_recipe(1);
            recipe.model.name = "resnet18";
            recipe.data.drop_last = drop_last;
            Trainer(recipe, {std::make_shared<SquareDataset>(98), nullptr}, nullptr, OptimizerKernel::fused, false,
                    group);
        });
    };
    EXPECT_THAT(train(false), Each(AllOf(HasSubstr("[data.drop_last] expected at least two samples at a time"),
                                         HasSubstr("one in an epoch's last batch of 2, over 2 ranks"))));
    EXPECT_THAT(train(true), Each(""));
}

TEST(RanksBatch, IsDividedByThem) {
    EXPECT_THAT(as_ranks(3,
                         [](const auto& group) {
                             Trainer(small_recipe(1), odd_data(), nullptr, OptimizerKernel::fused, false, group);
                         }),
                Each(HasSubstr("[data.batch_size] expected a multiple of the 3 ranks, got 16")));
}

}  // namespace
}  // namespace stoker
