#include "stoker/train/run/run_recorder.h"

#include <fmt/format.h>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/records/records_json.h"
#include "stoker/track/curves.h"
#include "stoker/track/run_record.h"
#include "stoker/track/scalars.h"

namespace stoker {

void RunRecorder::set_folder(const std::filesystem::path& folder) {
    folder_.reset();
    if (!folder.empty()) {
        folder_.emplace(folder);
    }
}

std::filesystem::path RunRecorder::find_start(const std::string& resume, const OnWarning& on_warning) {
    if (folder_ && resume == "auto") {
        folder_->set_damaged_aside(on_warning);
    }
    return folder_ ? folder_->find_start(resume) : std::filesystem::path();
}

void RunRecorder::create(const std::string& recipe) {
    if (folder_) {
        folder_->create(recipe);
        begin(0);
    }
}

void RunRecorder::resume(const std::string& recipe, const MetricsPosition& checkpoint, const OnWarning& on_warning) {
    if (folder_) {
        if (const std::string lost = folder_->truncate_metrics(checkpoint); !lost.empty() && on_warning) {
            on_warning(lost);
        }
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
    const StepEntry step{.step = result.step,
                         .epoch = result.epoch,
                         .samples = result.samples,
                         .host = result.record,
                         .ready = result.ready,
                         .copy_bytes = result.copy_bytes,
                         .loss = loss,
                         .lr = result.lr};
    write(to_json_line(step, result.batch_hash));
    if (events_) {
        events_->add(step.step, wall_time_now(), scalars_of(step_line(step)));
    }
}

void RunRecorder::epoch(const EpochResult& result) {
    write(to_json_line(result));
    if (events_) {
        events_->add(result.step, wall_time_now(), scalars_of(result));
    }
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
    NewCheckpoint checkpoint = folder_->new_checkpoint(state.step, as_best);
    checkpoint.state = to_json(state);
    return checkpoint;
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
