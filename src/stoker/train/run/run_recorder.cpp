#include "stoker/train/run/run_recorder.h"

#include <chrono>
#include <cmath>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/track/curves.h"
#include "stoker/track/run_record.h"
#include "stoker/track/scalars.h"

namespace stoker {
namespace {

double seconds(std::chrono::nanoseconds time) {
    return std::chrono::duration<double>(time).count();
}

// {"type": "step", "schema": 1, "step", "epoch", "samples", "loss", "lr", "batch_hash", "ready", "copy_bytes",
// "us": {phase: N}}, with null for a loss that is not finite and without phases that took no time. Formatted without a
// JSON object, because it is written for every step. "us" comes last: track/metrics_file knows a whole line by its end.
std::string json_line(const StepResult& result, double loss) {
    std::string line = fmt::format(
        R"({{"type":"step","schema":{},"step":{},"epoch":{},"samples":{},"loss":{},"lr":{},"batch_hash":"{:016x}")",
        StepRecord::kVersion, result.step, result.epoch, result.samples,
        std::isfinite(loss) ? fmt::to_string(loss) : "null", result.lr, result.batch_hash);
    if (result.ready) {
        fmt::format_to(std::back_inserter(line), R"(,"ready":{})", *result.ready);
    }
    if (result.copy_bytes) {
        fmt::format_to(std::back_inserter(line), R"(,"copy_bytes":{})", *result.copy_bytes);
    }
    line += R"(,"us":{)";
    const char* separator = "";
    for (std::size_t i = 0; i < kPhases; ++i) {
        if (const auto us = result.record.times[i].count() / 1000; us != 0) {
            fmt::format_to(std::back_inserter(line), R"({}"{}":{})", std::exchange(separator, ","),
                           phase_name(static_cast<Phase>(i)), us);
        }
    }
    return line + "}}";
}

// {"type": "epoch", "schema": 1, "step", then the keys of to_json(EpochResult)}
std::string json_line(const EpochResult& result, std::int64_t step) {
    nlohmann::ordered_json json = {{"type", "epoch"}, {"schema", StepRecord::kVersion}, {"step", step}};
    json.update(nlohmann::ordered_json::parse(to_json(result)));
    return json.dump();
}

}  // namespace

void RunRecorder::set_folder(const std::filesystem::path& folder) {
    folder_.reset();
    if (!folder.empty()) {
        folder_.emplace(folder);
    }
}

std::filesystem::path RunRecorder::find_start(const std::string& resume) {
    return folder_ ? folder_->find_start(resume) : std::filesystem::path();
}

void RunRecorder::create(const std::string& recipe) {
    if (folder_) {
        folder_->create(recipe);
        begin(0);
    }
}

void RunRecorder::resume(const std::string& recipe, const MetricsPosition& checkpoint) {
    if (folder_) {
        folder_->cut_metrics(checkpoint);
        folder_->resume(recipe);
        folder_->remove_checkpoints_after(checkpoint.step);
        begin(checkpoint.step);
    }
}

bool RunRecorder::is_newest(const std::filesystem::path& checkpoint) const {
    const auto newest = folder_ ? find_checkpoint(folder_->path()) : std::nullopt;
    std::error_code none;
    return newest && std::filesystem::equivalent(*newest, checkpoint, none);
}

void RunRecorder::require_unfinished(const std::filesystem::path& checkpoint) const {
    if (folder_ && !folder_->holds(checkpoint)) {
        throw InvalidArgument(
            {.where = checkpoint.string(),
             .expected = "a checkpoint of a run that has epochs left",
             .got = "one of a finished run",
             .hint = fmt::format("raise train.epochs (or train.early_stop, if that ended it) to continue it in {}",
                                 folder_->path().string())});
    }
}

bool RunRecorder::holds_best(std::int64_t step) const {
    try {
        return folder_ && read_step(folder_->path() / kBest) == step;
    } catch (const Error&) {  // there is none
        return false;
    }
}

void RunRecorder::reopen() {
    if (folder_) {
        folder_->reopen();
        quarantine_.open(folder_->path() / kQuarantine);
    }
}

void RunRecorder::begin(std::int64_t step) {
    quarantine_.open(folder_->path() / kQuarantine);
    events_.emplace(EventFileOptions{.folder = folder_->path(), .first_step = step + 1});
}

void RunRecorder::write(const std::string& line) {
    if (events_) {
        folder_->metric(line);
    }
    if (on_record_) {
        on_record_(line);
    }
}

void RunRecorder::step(const StepResult& result, double loss) {
    if (!events_ && !on_record_) {
        return;
    }
    write(json_line(result, loss));
    if (!events_) {
        return;
    }
    const StepLine line{.step = result.step,
                        .epoch = result.epoch,
                        .samples = result.samples,
                        .lr = result.lr,
                        .loss = loss,
                        .seconds = seconds(result.record.total()),
                        .wait_seconds = seconds(result.record.times[static_cast<std::size_t>(Phase::wait)])};
    events_->add(result.step, wall_time_now(), scalars_of(line));
}

void RunRecorder::epoch(const EpochResult& result, std::int64_t step) {
    write(json_line(result, step));
    if (!events_) {
        return;
    }
    EpochLine line{.epoch = result.epoch,
                   .step = step,
                   .seconds = result.seconds,
                   .images_per_second = result.images_per_second,
                   .train_loss = result.train_loss,
                   .val_loss = result.val_loss,
                   .val_accuracy = result.val_accuracy,
                   .bad_samples = result.bad_samples,
                   .val_bad_samples = result.val_bad_samples};
    for (const Metric& metric : result.val_metrics) {
        if (!result.val_accuracy) {  // classification has an accuracy of its own
            line.val_metrics.push_back({kMetricTag + metric.name, metric.value});
        }
    }
    events_->add(step, wall_time_now(), scalars_of(line));
}

void RunRecorder::records(const std::string& lines) {
    if (!lines.empty()) {
        write(lines.substr(0, lines.size() - 1));
    }
}

void RunRecorder::flush() {
    folder_->flush_metrics();
    events_->flush();
}

void RunRecorder::draw_curves() {
    const CurveRun curve{.name = folder_->path().filename().string(),
                         .metrics = read_metrics(folder_->path() / kMetricsFile, MetricLines::curves)};
    if (!curve.metrics.steps.empty()) {
        write_file(folder_->path() / kCurves, curves_svg(std::span(&curve, 1)));
    }
}

std::optional<NewCheckpoint> RunRecorder::begin_checkpoint(RunState state, bool as_best) {
    if (!events_) {
        return std::nullopt;
    }
    flush();
    state.metrics_bytes = folder_->metrics_bytes();
    return NewCheckpoint{.folder = as_best ? folder_->new_best() : folder_->new_checkpoint(state.step),
                         .state = to_json(state),
                         .best = as_best};
}

void RunRecorder::keep(const NewCheckpoint& checkpoint) {
    folder_->keep(checkpoint.folder);
    if (!checkpoint.best) {
        folder_->remove_old_checkpoints();
    }
}

std::string RunRecorder::finish(const std::string& document, bool was_finished) {
    on_record_ = nullptr;
    if (!folder_) {
        return document;
    }
    std::string stored;
    if (was_finished) {
        stored = reuse_document(folder_->read_account(), document);
    }
    if (stored.empty()) {  // or the run was killed after its last checkpoint
        if (events_) {
            flush();
        }
        folder_->write_account(document);  // before the curves, which take seconds after a long run
        draw_curves();
        stored = document;
    }
    events_.reset();
    folder_.reset();
    return stored;
}

void RunRecorder::fail(const std::string& reason, bool trained) {
    on_record_ = nullptr;
    try {
        if (events_) {
            flush();
            draw_curves();
        }
    } catch (const std::exception&) {  // the caller is about to throw the error that ended the run
    }
    events_.reset();
    if (folder_) {
        folder_->fail(reason, trained);
        folder_.reset();
    }
}

}  // namespace stoker
