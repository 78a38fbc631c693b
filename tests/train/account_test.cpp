// The step account of runs: sleeping in one phase adds to that phase's share and to no other, the shares sum to one,
// and a healthy run leaves little unmeasured.
#include <ATen/ops/zeros.h>
#include <ATen/record_function.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <thread>

#include "train/support.h"

namespace stoker {
namespace {

using namespace std::chrono_literals;
using testing::kStepsAnEpoch;
using testing::LinearModel;
using testing::small_data;
using testing::small_recipe;
using testing::SquareDataset;
using testing::TempDir;

constexpr auto kSleep = 20ms;

void sleep_now() {
    std::this_thread::sleep_for(kSleep);
}

// Sleeps before every call of one ATen operator on this thread.
class SleepBefore {
  public:
    explicit SleepBefore(const char* op)
        : handle_(at::addThreadLocalCallback(
              at::RecordFunctionCallback(&SleepBefore::on_start).scopes({at::RecordScope::FUNCTION}))) {
        op_ = op;
        calls_ = 0;
    }
    SleepBefore(const SleepBefore&) = delete;
    SleepBefore& operator=(const SleepBefore&) = delete;
    ~SleepBefore() { at::removeCallback(handle_); }
    int calls() const { return calls_; }

  private:
    static std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction& function) {
        if (op_ == function.name()) {
            ++calls_;
            sleep_now();
        }
        return nullptr;
    }
    static inline std::string op_;
    static inline int calls_ = 0;
    at::CallbackHandle handle_;
};

double in_phase(const StepRecord& record, Phase phase) {
    return std::chrono::duration<double>(record.times[static_cast<std::size_t>(phase)]).count();
}

// After `sleeps` sleeps in `phase`: it has all of that time, and no other phase has half of it.
void expect_only_in(Phase phase, int sleeps, const TrainResult& result) {
    const double injected = std::chrono::duration<double>(kSleep).count() * sleeps;
    double shares = 0;
    for (std::size_t i = 0; i < kPhases; ++i) {
        const Phase other = static_cast<Phase>(i);
        shares += result.account.share(other);
        if (other == phase) {
            EXPECT_GE(in_phase(result.account, phase), injected) << phase_name(phase);
        } else {
            EXPECT_LT(in_phase(result.account, other), injected / 2) << phase_name(other);
        }
    }
    EXPECT_NEAR(shares, 1.0, 1e-12);
}

TEST(AccountOfARun, SlowDatasetIsWait) {
    const auto slow = std::make_shared<SquareDataset>(100);
    slow->before_read = [](std::int64_t index) {
        if (index % 10 == 0) {
            sleep_now();
        }
    };
    Recipe recipe = small_recipe(1);
    recipe.data.workers = 0;  // otherwise prefetching would hide a part of it
    Trainer trainer(recipe, {slow, nullptr});
    expect_only_in(Phase::wait, 10, trainer.fit());
}

TEST(AccountOfARun, SlowForward) {
    auto model = std::make_unique<LinearModel>();
    model->before_forward = sleep_now;
    Trainer trainer(small_recipe(2), {small_data().train, nullptr}, std::move(model));
    expect_only_in(Phase::forward, 2 * kStepsAnEpoch, trainer.fit());
}

TEST(AccountOfARun, SlowBackward) {
    auto model = std::make_unique<LinearModel>();
    model->on_gradient = sleep_now;
    Trainer trainer(small_recipe(2), {small_data().train, nullptr}, std::move(model));
    expect_only_in(Phase::backward, 2 * kStepsAnEpoch, trainer.fit());
}

TEST(AccountOfARun, SlowOptimizer) {
    Recipe recipe = small_recipe(2);
    recipe.train.compile = "none";
    Trainer trainer(recipe, {small_data().train, nullptr});
    const SleepBefore slow("aten::_fused_adam_");
    const TrainResult result = trainer.fit();
    ASSERT_EQ(slow.calls(), 2 * kStepsAnEpoch);
    expect_only_in(Phase::optimizer, slow.calls(), result);
}

TEST(AccountOfARun, SlowValidationDataIsEvaluate) {
    const auto slow = std::make_shared<SquareDataset>(40, 2);
    slow->before_read = [](std::int64_t index) {
        if (index % 4 == 0) {
            sleep_now();
        }
    };
    Recipe recipe = small_recipe(1);
    recipe.data.workers = 0;
    Trainer trainer(recipe, {small_data().train, slow});
    expect_only_in(Phase::evaluate, 10, trainer.fit());
}

TEST(AccountOfARun, SlowCheckpoint) {
    const TempDir folder;
    // A channels-last buffer is made contiguous only when it is written.
    auto model = std::make_unique<LinearModel>();
    model->add_buffer("image", at::zeros({2, 3, 4, 5}));
    Recipe recipe = small_recipe(2);
    recipe.train.checkpoint_every = {.count = 1, .epochs = false};
    Trainer trainer(recipe, {small_data().train, nullptr}, std::move(model));
    const SleepBefore slow("aten::clone");
    const TrainResult result = trainer.fit({.out = folder / "run"});
    ASSERT_EQ(slow.calls(), 2 * kStepsAnEpoch + 1) << "one for each step, and the last again after its evaluation";
    expect_only_in(Phase::checkpoint, slow.calls(), result);
}

TEST(AccountOfARun, TheCallersOwnTimeIsUnmeasured) {
    Trainer trainer(small_recipe(2), {small_data().train, nullptr});
    expect_only_in(Phase::unmeasured, 2 * kStepsAnEpoch,
                   trainer.fit({.on_step = [](const Progress&) { sleep_now(); }}));
}

TEST(AccountOfARun, WritingTheRecordsIsUnmeasured) {
    Trainer trainer(small_recipe(2), {small_data().train, nullptr});
    int sleeps = 0;
    const TrainResult result = trainer.fit({.on_record = [&](const std::string& line) {
        if (line.starts_with(R"({"type":"step")")) {
            ++sleeps;
            sleep_now();
        }
    }});
    ASSERT_EQ(sleeps, 2 * kStepsAnEpoch);
    expect_only_in(Phase::unmeasured, sleeps, result);
}

class HealthyRun : public ::testing::TestWithParam<std::string> {};

TEST_P(HealthyRun, LeavesLittleUnmeasured) {
    const TempDir folder;
    Recipe recipe = small_recipe(2);
    recipe.train.compile = GetParam();
    recipe.data.train = "synth:digits?count=6000";
    recipe.data.train_ops = {};
    recipe.data.batch_size = 64;
    recipe.data.cache = "ram";
    recipe.model.hidden = {512, 256};  // a step of some milliseconds
    constexpr double kLittle = 0.05;
    TrainResult result;
    // Other processes may interrupt some of the runs.
    for (int run = 0; run == 0 || (run < 10 && result.account.share(Phase::unmeasured) > kLittle); ++run) {
        Trainer trainer(recipe);
        result = trainer.fit({.out = folder / fmt::format("run{}", run)});
    }
    EXPECT_LE(result.account.share(Phase::unmeasured), kLittle);
    std::vector<Phase> phases = {Phase::wait, Phase::copy, Phase::sync, Phase::evaluate, Phase::checkpoint};
    if (GetParam() == "auto") {
        phases.push_back(Phase::step);
    } else {
        phases.insert(phases.end(), {Phase::forward, Phase::backward, Phase::optimizer});
    }
    for (const Phase phase : phases) {
        EXPECT_GT(result.account.share(phase), 0) << phase_name(phase);
    }
    EXPECT_EQ(in_phase(result.account, Phase::communication), 0);
    EXPECT_GE(result.workers.samples, 12000);
}

INSTANTIATE_TEST_SUITE_P(AccountOfARun, HealthyRun, ::testing::Values("auto", "none"));

TEST(AccountOfARun, EpochSecondsLeaveEvaluationAndCheckpointsOut) {
    const TempDir folder;
    const auto slow = std::make_shared<SquareDataset>(40, 2);
    slow->before_read = [](std::int64_t) { sleep_now(); };
    auto model = std::make_unique<LinearModel>();
    model->add_buffer("image", at::zeros({2, 3, 4, 5}));
    Recipe recipe = small_recipe(1);
    recipe.data.workers = 0;
    recipe.train.checkpoint_every = {.count = 1, .epochs = false};
    Trainer trainer(recipe, {small_data().train, slow}, std::move(model));
    const SleepBefore slow_checkpoint("aten::clone");
    const TrainResult result = trainer.fit({.out = folder / "run"});
    ASSERT_EQ(result.epochs.size(), 1u);
    EXPECT_LT(result.epochs[0].seconds, 0.1);  // evaluation takes 0.8 s and checkpoints 0.14 s
    EXPECT_NEAR(result.epochs[0].images_per_second * result.epochs[0].seconds, 100, 1e-6);
}

}  // namespace
}  // namespace stoker
