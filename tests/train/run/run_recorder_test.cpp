// The recorder without training: a checkpoint gives back the state that was saved, and a resumed run continues its
// files.
#include "stoker/train/run/run_recorder.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "support/temp_dir.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::TempDir;

RunState state_at(std::int64_t step) {
    RunState state{.loader = {.epoch = 1, .batch = step - 7, .size = 100, .batch_size = 16, .order = "shuffled"},
                   .classes = {"top", "bottom"},
                   .step = step,
                   .epochs = {{.epoch = 1, .seconds = 0.5, .train_loss = std::nan(""), .val_loss = 0.25}},
                   .sums = {.loss = 0.1 + 0.2, .seconds = 1.5, .samples = 48, .bad_samples = 2},
                   .account = {},
                   .accumulate = 4,
                   .recipe = "seed = 5\n",
                   .model_hash = "abc"};
    state.account.times[static_cast<std::size_t>(Phase::wait)] = std::chrono::nanoseconds(12345);
    return state;
}

void save(RunRecorder& recorder, const RunState& state, double weight) {
    if (const std::optional<NewCheckpoint> begun = recorder.begin_checkpoint(state, /*as_best=*/false)) {
        write_checkpoint(
            begun->folder,
            {.model = {{"weight", at::full({2}, weight)}}, .optimizer = {}, .ema = {}, .state = begun->state});
        recorder.keep(*begun);
    }
}

void write_steps(RunRecorder& recorder, std::int64_t first, std::int64_t last) {
    for (std::int64_t step = first; step <= last; ++step) {
        recorder.step({.step = step, .epoch = 2, .samples = 16, .lr = 0.1, .batch_hash = 7, .record = {}}, 0.5);
    }
}

TEST(RunRecorder, ACheckpointRestoresTheRunningSums) {
    const TempDir folder;
    RunRecorder recorder;
    recorder.set_folder(folder / "run");
    EXPECT_EQ(recorder.find_start("auto"), "");
    EXPECT_FALSE(fs::exists(folder / "run")) << "nothing has begun";
    recorder.create("seed = 5\n");
    write_steps(recorder, 8, 10);
    save(recorder, state_at(10), 3);

    const fs::path path = folder / "run/checkpoints/10";
    const Checkpoint read = read_checkpoint(path);
    EXPECT_TRUE(at::equal(read.model.at(0).tensor, at::full({2}, 3.0)));
    const RunState state = run_state_from_json(read.state);
    EXPECT_EQ(state.sums.loss, 0.1 + 0.2);
    EXPECT_EQ(state.sums.seconds, 1.5);
    EXPECT_EQ(state.sums.samples, 48);
    EXPECT_EQ(state.sums.bad_samples, 2);
    EXPECT_EQ(state.loader, state_at(10).loader);
    EXPECT_EQ(state.classes, state_at(10).classes);
    EXPECT_EQ(state.step, 10);
    ASSERT_EQ(state.epochs.size(), 1u);
    EXPECT_TRUE(std::isnan(state.epochs[0].train_loss)) << "JSON lacks NaN";
    EXPECT_EQ(state.epochs[0].val_loss, 0.25);
    EXPECT_EQ(state.account.times, state_at(10).account.times);
    EXPECT_EQ(state.accumulate, 4);
    EXPECT_EQ(state.metrics_bytes, static_cast<std::int64_t>(fs::file_size(folder / "run/metrics.jsonl")));
    EXPECT_EQ(read_trained_recipe(path), "seed = 5\n");
    EXPECT_EQ(read_model_hash(path), "abc");
}

// An epoch whose loss was not finite differs from one that was not evaluated: the schedule plateau looks at the first.
TEST(RunRecorder, ALossThatWasNotFiniteIsNotForgotten) {
    RunState state = state_at(10);
    state.epochs[0].val_loss = std::numeric_limits<double>::infinity();
    state.epochs[0].val_accuracy = 0.5;
    EXPECT_TRUE(std::isnan(run_state_from_json(to_json(state)).epochs[0].val_loss.value_or(0)));
    state.epochs[0].val_accuracy.reset();
    state.epochs[0].val_metrics = {{"mae", 3}};
    EXPECT_TRUE(std::isnan(run_state_from_json(to_json(state)).epochs[0].val_loss.value_or(0)));
    state.epochs[0].val_metrics.clear();
    EXPECT_TRUE(std::isnan(run_state_from_json(to_json(state)).epochs[0].val_loss.value_or(0)));
    state.epochs[0].val_loss.reset();
    EXPECT_FALSE(run_state_from_json(to_json(state)).epochs[0].val_loss);
}

TEST(RunRecorder, AResumedRunContinuesItsFiles) {
    const TempDir folder;
    std::int64_t bytes = 0;
    {
        RunRecorder recorder;
        recorder.set_folder(folder / "run");
        recorder.create("seed = 5\n");
        write_steps(recorder, 8, 10);
        save(recorder, state_at(10), 1);
        bytes = static_cast<std::int64_t>(fs::file_size(folder / "run/metrics.jsonl"));
        write_steps(recorder, 11, 12);
        save(recorder, state_at(12), 2);
    }
    RunRecorder recorder;
    recorder.set_folder(folder / "run");
    EXPECT_THROW(recorder.find_start(""), InvalidArgument) << "a new run would overwrite this one";
    EXPECT_EQ(recorder.find_start("auto"), folder / "run/checkpoints/12");
    const std::string older = folder / "run/checkpoints/10";
    EXPECT_EQ(recorder.find_start(older), older);
    recorder.resume("seed = 6\n", {.bytes = bytes, .step = 10, .epochs = 1});
    EXPECT_EQ(fs::file_size(folder / "run/metrics.jsonl"), static_cast<std::uintmax_t>(bytes));
    EXPECT_FALSE(fs::exists(folder / "run/checkpoints/12"));
    EXPECT_EQ(recorder.finish("{}", /*was_finished=*/false), "{}");
    EXPECT_FALSE(recorder.recording());
    EXPECT_TRUE(fs::exists(folder / "run/curves.svg"));
    EXPECT_EQ(read_text(folder / "run/account.json"), "{}\n");
}

TEST(RunRecorder, AFinishedRunKeepsItsDocument) {
    const TempDir folder;
    const auto finish = [&](const std::string& document, bool was_finished) {
        RunRecorder recorder;
        recorder.set_folder(folder / "run");
        recorder.resume("seed = 5\n", {.bytes = 0, .step = 10, .epochs = 1});
        return recorder.finish(document, was_finished);
    };
    const auto document = [](std::int64_t steps, const char* device, const char* from) {
        return fmt::format(
            R"({{"resumed_from_step": {}, "steps": {}, "interrupted": false, "epochs": [], "device": "{}"}})", from,
            steps, device);
    };
    finish(document(10, "old", "null"), false);
    const std::string again = finish(document(10, "new", "10"), true);
    EXPECT_THAT(again, HasSubstr(R"("device": "old")"));
    EXPECT_THAT(again, HasSubstr(R"("resumed_from_step": 10)"));
    EXPECT_THAT(finish(document(11, "new", "11"), true), Not(HasSubstr("old"))) << "of another run";
}

TEST(RunRecorder, AStepLeavesOutPhasesThatTookNoTime) {
    RunRecorder recorder;
    std::string line;
    recorder.listen([&](const std::string& text) { line = text; });
    StepResult step{
        .step = 1, .epoch = 1, .samples = 16, .lr = 0.5, .batch_hash = 7, .record = {}, .ready = 3, .copy_bytes = 9};
    step.record.times[static_cast<std::size_t>(Phase::wait)] = std::chrono::microseconds(20);
    step.record.times[static_cast<std::size_t>(Phase::step)] = std::chrono::microseconds(5);
    recorder.step(step, 0.25);
    EXPECT_EQ(line, R"({"type":"step","schema":1,"step":1,"epoch":1,"samples":16,"loss":0.25,"lr":0.5,)"
                    R"("batch_hash":"0000000000000007","ready":3,"copy_bytes":9,"us":{"wait":20,"step":5}})");
}

TEST(RunRecorder, TheDocumentDoesNotWaitForTheCurves) {
    const TempDir folder;
    RunRecorder recorder;
    recorder.set_folder(folder / "run");
    recorder.create("seed = 5\n");
    write_steps(recorder, 1, 3);
    fs::create_directories(folder / "run/curves.svg");  // which can then not be written
    EXPECT_THROW(recorder.finish("{}", /*was_finished=*/false), IoError);
    EXPECT_EQ(read_text(folder / "run/account.json"), "{}\n");
    EXPECT_THAT(read_text(folder / "run/metrics.jsonl"), HasSubstr(R"("step":3)"));
}

TEST(RunRecorder, WithoutAFolderNothingIsWritten) {
    RunRecorder recorder;
    recorder.set_folder("");
    EXPECT_EQ(recorder.find_start("auto"), "");
    recorder.create("seed = 5\n");
    write_steps(recorder, 1, 3);
    recorder.bad_samples("not even JSON\n");
    save(recorder, state_at(10), 1);
    EXPECT_FALSE(recorder.recording());
    EXPECT_EQ(recorder.finish("{}", false), "{}");
    recorder.fail("no folder", true);
}

TEST(RunState, RefusesOtherVersionsAndContradictions) {
    EXPECT_THROW(run_state_from_json(R"({"version": 1})"), InvalidArgument);
    EXPECT_THROW(run_state_from_json("{}"), InvalidArgument);
    EXPECT_NO_THROW(require_consistent(state_at(10), 7));
    EXPECT_THROW(require_consistent(state_at(10), 8), InvalidArgument);
    RunState evaluating = state_at(14);  // all steps of the second epoch are done, its evaluation is not
    evaluating.loader.epoch = 2;
    evaluating.loader.batch = 0;
    EXPECT_NO_THROW(require_consistent(evaluating, 7));
    evaluating.epochs.clear();
    EXPECT_THROW(require_consistent(evaluating, 7), InvalidArgument);
}

}  // namespace
}  // namespace stoker
