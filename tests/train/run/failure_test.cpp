// A run that fails leaves a checkpoint of its last whole step, from which it resumes as if it had not failed; a signal
// can ask for one. Validation that cannot work is refused before the first step.
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "stoker/base/error.h"
#include "stoker/track/event_file.h"
#include "support/failing_allocator.h"
#include "train/support.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;
using testing::every;
using testing::FailingAllocator;
using testing::figures;
using ::testing::HasSubstr;
using testing::kEpochs;
using testing::kSteps;
using testing::kStepsAnEpoch;
using testing::LinearModel;
using testing::live;
using testing::metrics_of;
using testing::small_data;
using testing::SquareDataset;
using testing::TempDir;

Recipe without_budget(Recipe recipe) {
    recipe.data.bad_samples = {};
    return recipe;
}

struct Failure {
    FailedRun run;
    std::string error;
};

// Trains until it fails.
Failure fail_in(Trainer& trainer, FitOptions options) {
    Failure failure;
    options.on_failure = [&](const FailedRun& failed) { failure.run = failed; };
    try {
        trainer.fit(options);
        ADD_FAILURE() << "nothing was thrown";
    } catch (const std::exception& error) {
        failure.error = error.what();
    }
    return failure;
}

void expect_resumes(const Recipe& recipe, const fs::path& run, std::int64_t step) {
    const TempDir folder;
    const testing::Outcome whole = live(recipe, folder / "whole");
    const testing::Outcome rest = live(recipe, run);
    EXPECT_EQ(rest.result.resumed_from_step, step);
    EXPECT_EQ(figures(rest.result.epochs), figures(whole.result.epochs));
    EXPECT_TRUE(testing::same_weights(rest.weights, whole.weights));
    EXPECT_EQ(metrics_of(run), metrics_of(folder / "whole"));
}

TEST(Failure, InAnEvaluationKeepsTheEpoch) {
    const TempDir folder;
    const Recipe recipe = without_budget(every(2, true));
    auto val = std::make_shared<SquareDataset>(40, 2);
    Trainer trainer(recipe, {small_data().train, val});
    std::atomic<bool> broken = false;
    val->before_read = [&](std::int64_t index) {
        if (broken && index == 33) {
            throw IoError({.where = "disk", .expected = "bytes", .got = "no answer"});
        }
    };
    const Failure failure =
        fail_in(trainer, {.out = folder / "run", .on_step = [&](const Progress& at) { broken = at.epoch == 3; }});
    EXPECT_THAT(failure.error, HasSubstr("no answer"));
    EXPECT_EQ(failure.run.step, kSteps);
    EXPECT_EQ(failure.run.no_checkpoint, "");
    EXPECT_TRUE(fs::exists(folder / "run/failed.json"));
    expect_resumes(recipe, folder / "run", kSteps);
}

TEST(Failure, OfTheDataKeepsTheStepsBefore) {
    const TempDir folder;
    const Recipe recipe = without_budget(every(1, true));
    for (const std::int64_t step : {5, 12}) {
        const fs::path run = folder / fmt::format("run{}", step);
        const auto train = std::make_shared<SquareDataset>(100);
        std::atomic<bool> broken = false;
        train->before_read = [&](std::int64_t) {
            if (broken) {
                throw DataError({}, {.where = "source", .expected = "pixels", .got = "rubbish"});
            }
        };
        Recipe in_turn = recipe;
        in_turn.data.workers = 0;  // nothing is read ahead
        Trainer trainer(in_turn, {train, small_data().val});
        std::int64_t steps = 0;
        const Failure failure =
            fail_in(trainer, {.out = run, .on_step = [&](const Progress&) { broken = ++steps == step; }});
        EXPECT_THAT(failure.error, HasSubstr("rubbish"));
        EXPECT_EQ(failure.run.step, step);
        EXPECT_EQ(failure.run.no_checkpoint, "");
        expect_resumes(recipe, run, step);
    }
}

// From its 10th training pass on nothing on the device can be read. The first sign is LibTorch's error, or that of a
// kernel of our own.
TEST(Failure, OfTheDeviceNamesTheNewestCheckpoint) {
    const TempDir folder;
    const Recipe recipe = every(1, true);
    for (const bool own_kernel : {false, true}) {
        const fs::path run = folder / fmt::format("run{}", own_kernel);
        std::optional<FailingAllocator::Lost> lost;
        auto model = std::make_unique<LinearModel>();
        LinearModel* own = model.get();
        FailingAllocator::instance();
        int passes = 0;
        model->before_forward = [&, own] {
            if (own->training() && ++passes == 10) {
                lost.emplace();
                if (own_kernel) {
                    throw CudaError({.where = "batch norm", .expected = "a launch", .got = "launch failure"});
                }
                throw FailingAllocator::lost_device();
            }
        };
        bool told = false;
        FitOptions options{.out = run};
        options.on_failure = [&](const FailedRun&) { told = true; };
        {
            Trainer trainer(recipe, small_data(), std::move(model));
            passes = 0;  // the checks before training have run the model
            try {
                trainer.fit(options);
                ADD_FAILURE() << "nothing was thrown";
            } catch (const Error& error) {
                EXPECT_THAT(error.what(), ::testing::StartsWith(
                                              "[device] expected a device that works, got CUDA error: unspecified"));
                EXPECT_THAT(error.what(), ::testing::EndsWith("continues from " + (run / "checkpoints/7").string()));
            }
        }  // the trainer goes without its device as well
        lost.reset();
        EXPECT_FALSE(told);
        EXPECT_FALSE(fs::exists(run / "checkpoints/9"));
        EXPECT_TRUE(fs::exists(run / "failed.json"));
        Trainer rest(recipe, small_data(), std::make_unique<LinearModel>());
        EXPECT_EQ(rest.fit({.out = run, .resume = "auto"}).resumed_from_step, kStepsAnEpoch);
    }
}

TEST(Failure, OfTheDeviceWithoutACheckpointSaysSo) {
    const TempDir folder;
    auto model = std::make_unique<LinearModel>();
    int passes = 0;
    model->before_forward = [&] {
        if (++passes == 3) {
            throw FailingAllocator::lost_device();
        }
    };
    Trainer trainer(every(1, true), small_data(), std::move(model));
    const Failure failure = fail_in(trainer, {.out = folder / "run"});
    EXPECT_THAT(failure.error, HasSubstr("unspecified launch failure; there is no checkpoint to continue from"));
}

// Running statistics, which a forward pass changes, are as before the step that failed.
TEST(Failure, OfAForwardPassKeepsTheStepsBefore) {
    const TempDir folder;
    const auto run_model = [&](const fs::path& run, std::int64_t fail_at) {
        auto model = std::make_unique<LinearModel>();
        const at::Tensor passes = at::zeros({1});
        model->add_buffer("passes", passes);
        LinearModel* own = model.get();
        model->before_forward = [own, passes, fail_at] {
            if (own->training()) {
                passes.add_(1);
                if (passes.item<float>() == static_cast<float>(fail_at)) {
                    throw std::runtime_error("the kernel failed");
                }
            }
        };
        Recipe recipe = every(1, true);
        Trainer trainer(recipe, small_data(), std::move(model));
        passes.zero_();  // the checks before training have run the model
        if (fail_at == 0) {
            const TrainResult result = trainer.fit({.out = run, .resume = "auto"});
            EXPECT_EQ(passes.item<float>(), static_cast<float>(kSteps));
            return figures(result.epochs);
        }
        const Failure failure = fail_in(trainer, {.out = run});
        EXPECT_THAT(failure.error, HasSubstr("the kernel failed"));
        EXPECT_EQ(failure.run.step, fail_at - 1);
        EXPECT_EQ(failure.run.no_checkpoint, "");
        return std::string();
    };
    const std::string whole = run_model(folder / "whole", 0);
    run_model(folder / "run", 12);
    EXPECT_EQ(run_model(folder / "run", 0), whole);
}

TEST(Failure, ALossThatIsNotFiniteLeavesNoCheckpointOfIt) {
    const TempDir folder;
    Recipe recipe = every(1, true, "sgd");
    recipe.schedule.name = "constant";
    recipe.optimizer.lr = 1e30;
    Trainer trainer(recipe, small_data());
    const Failure failure = fail_in(trainer, {.out = folder / "run"});
    EXPECT_THAT(failure.error, HasSubstr("a finite loss"));
    EXPECT_EQ(failure.run.no_checkpoint, "its loss is not finite");
    EXPECT_FALSE(find_checkpoint(folder / "run"));
}

TEST(Failure, AnUpdateThatFailedHalfwayIsNotSaved) {
    const TempDir folder;
    auto model = std::make_unique<LinearModel>();
    const at::Tensor other = at::ones({3}).set_requires_grad(true);
    model->add_parameter("other", other);
    std::int64_t steps = 0;
    model->on_gradient = [&] {
        if (++steps == 12) {
            other.mutable_grad() = at::ones({3}, at::kDouble).to_sparse();  // no optimiser takes it
        }
    };
    Recipe recipe = every(5, false);
    Trainer trainer(recipe, small_data(), std::move(model));
    const Failure failure = fail_in(trainer, {.out = folder / "run"});
    EXPECT_EQ(failure.run.step, 11);
    EXPECT_THAT(failure.run.no_checkpoint, HasSubstr("in the middle of its update")) << failure.error;
    EXPECT_EQ(find_checkpoint(folder / "run"), folder / "run/checkpoints/10");
}

TEST(SaveRequest, LeavesACheckpointAndTheRunGoesOn) {
    const TempDir folder;
    const testing::Outcome whole = live(every(1, true), folder / "whole");
    std::atomic<int> saves = 0;
    std::vector<std::int64_t> saved;
    Trainer trainer(every(1, true), small_data());
    std::int64_t steps = 0;
    const TrainResult result = trainer.fit({.out = folder / "run",
                                            .on_step =
                                                [&](const Progress&) {
                                                    if (++steps == 9) {
                                                        saves = 1;
                                                    }
                                                },
                                            .on_save =
                                                [&](std::int64_t step) {
                                                    saved.push_back(step);
                                                    EXPECT_TRUE(fs::exists(folder / "run/checkpoints/9/state.json"));
                                                },
                                            .save = &saves});
    EXPECT_EQ(saved, std::vector<std::int64_t>{9});
    EXPECT_FALSE(result.interrupted);
    EXPECT_EQ(figures(result.epochs), figures(whole.result.epochs));
    EXPECT_EQ(metrics_of(folder / "run"), metrics_of(folder / "whole"));
}

TEST(SaveRequest, DuringAnEvaluationIsAnsweredAtOnce) {
    const TempDir folder;
    const testing::Outcome whole = live(every(5, true), folder / "whole");
    std::atomic<int> saves = 0;
    std::vector<std::int64_t> saved;
    Trainer trainer(every(5, true), small_data());
    const TrainResult result = trainer.fit({.out = folder / "run",
                                            .on_evaluation = [&](const EvaluationProgress&) { saves = 1; },
                                            .on_save = [&](std::int64_t step) { saved.push_back(step); },
                                            .save = &saves});
    EXPECT_EQ(saved, std::vector<std::int64_t>{kStepsAnEpoch});
    EXPECT_TRUE(fs::exists(folder / fmt::format("run/checkpoints/{}", kStepsAnEpoch)));
    EXPECT_EQ(figures(result.epochs), figures(whole.result.epochs));
}

// The state is saved already, so nothing but an answer is due, and the evaluation does not begin again.
TEST(SaveRequest, ASecondOneDuringAnEvaluationDoesNotWaitForItsEnd) {
    const TempDir folder;
    std::atomic<int> saves = 0;
    std::vector<std::int64_t> saved;
    std::vector<std::int64_t> samples;  // evaluated before each checkpoint
    EvaluationProgress at;
    Recipe recipe = every(5, true);
    recipe.data.batch_size = 10;  // 4 batches of validation data
    Trainer trainer(recipe, small_data());
    trainer.fit({.out = folder / "run",
                 .on_evaluation =
                     [&](const EvaluationProgress& progress) {
                         at = progress;
                         saves = std::min(saves + 1, 2);
                     },
                 .on_save =
                     [&](std::int64_t step) {
                         saved.push_back(step);
                         samples.push_back(at.samples);
                     },
                 .save = &saves});
    EXPECT_EQ(saved, (std::vector<std::int64_t>{10, 10}));
    EXPECT_EQ(samples, (std::vector<std::int64_t>{10, 10}));
}

// Validation data with other sizes or labels.
class OtherSquares final : public Dataset {
  public:
    std::int64_t size() const override { return 200; }
    void read(std::int64_t index, Sample& sample) const override {
        squares_.read(index % squares_.size(), sample);
        if (index == other_size) {
            sample.set_raw(sample.storage.bytes(), 2, 8, 1);
        }
    }
    std::optional<std::int64_t> label(std::int64_t index) const override { return index < unlabelled ? -1 : 0; }
    std::span<const std::string> classes() const override { return squares_.classes(); }

    std::int64_t other_size = -1;
    std::int64_t unlabelled = 0;

  private:
    SquareDataset squares_{40, 2};
};

TEST(Validation, OfSeveralSizesIsRefusedBeforeTheFirstStep) {
    const auto val = std::make_shared<OtherSquares>();
    EXPECT_NO_THROW(Trainer(every(1, true), {small_data().train, val}));
    val->other_size = 199;
    EXPECT_THAT(
        [&] {
            Trainer(every(1, true), {small_data().train, val});
        },
        ::testing::ThrowsMessage<DataError>(HasSubstr("expected 1 x 4 x 4 (channels, height, width)")));
}

TEST(Validation, WithoutLabelsIsRefusedBeforeTheFirstStep) {
    const auto val = std::make_shared<OtherSquares>();
    val->unlabelled = 1;
    EXPECT_NO_THROW(Trainer(every(1, true), {small_data().train, val})) << "the budget is one sample";
    val->unlabelled = 2;
    EXPECT_THAT(
        [&] {
            Trainer(every(1, true), {small_data().train, val});
        },
        ::testing::ThrowsMessage<DataError>(HasSubstr("2 samples without such a label, first 0: none")));
}

std::map<std::string, std::string> files_of(const fs::path& folder) {
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
        if (entry.is_regular_file()) {
            files[entry.path().string()] = testing::text_of(entry.path());
        }
    }
    return files;
}

TEST(FinishedRun, IsNotChangedByAResume) {
    const TempDir folder;
    live(every(1, true), folder / "run");
    const auto before = files_of(folder / "run");
    live(every(1, true), folder / "run");
    EXPECT_EQ(files_of(folder / "run"), before);
}

TEST(KilledRun, WithoutACheckpointDoesNotBlockTheNext) {
    const TempDir folder;
    {
        RunRecorder killed;
        killed.set_folder(folder / "run");
        killed.find_start("");
        killed.create("seed = 5\n");
        fs::create_directories(folder / "run/checkpoints/.writing-8");
        std::ofstream(folder / "run/recipe.toml.tmp-123-0") << "half";
        Trainer next(every(1, true), small_data());
        EXPECT_THROW(next.fit({.out = folder / "run"}), InvalidArgument) << "that run is alive";
    }
    Trainer next(every(1, true), small_data());
    EXPECT_EQ(next.fit({.out = folder / "run"}).steps, kSteps);
    EXPECT_FALSE(fs::exists(folder / "run/checkpoints/.writing-8"));
    EXPECT_FALSE(fs::exists(folder / "run/recipe.toml.tmp-123-0"));
    Trainer another(every(1, true), small_data());
    EXPECT_THROW(another.fit({.out = folder / "run"}), InvalidArgument) << "a finished run stays";
}

TEST(KilledRun, AFolderWithOnlyARecipeIsNotOne) {
    const TempDir folder;
    std::ofstream(folder / "recipe.toml") << "# mine\n";
    Trainer trainer(every(1, true), small_data());
    EXPECT_THROW(trainer.fit({.out = folder.path()}), InvalidArgument);
    EXPECT_EQ(testing::text_of(folder / "recipe.toml"), "# mine\n");
}

}  // namespace
}  // namespace stoker
