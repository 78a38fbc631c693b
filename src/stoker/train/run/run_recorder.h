// Writes a run and finds the checkpoint that it resumes from. In the run folder: checkpoints, metrics.jsonl and the
// same figures in TensorBoard's event files, curves, the list of bad samples and the final document. Only rank 0 has a
// folder; without one every call does nothing.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "stoker/track/event_file.h"
#include "stoker/train/run/quarantine.h"
#include "stoker/train/run/run_folder.h"
#include "stoker/train/run/run_state.h"

namespace stoker {

class RunRecorder {
  public:
    // Names the folder of the next run; empty: none. Changes nothing on the disk.
    void set_folder(const std::filesystem::path& folder);
    bool has_folder() const { return folder_.has_value(); }
    // Why the folder could not be locked against other processes; empty if it is locked.
    std::string lock_problem() const { return folder_ ? folder_->lock_problem() : ""; }
    // Is called with every line of metrics.jsonl, also without a folder; null: nobody.
    void listen(std::function<void(const std::string& line)> on_record) { on_record_ = std::move(on_record); }

    // True between `create` or `resume` and `finish` or `fail`.
    bool recording() const { return events_.has_value(); }

    // True if RUN/best is the checkpoint of this step. It may not be where a run was resumed with another
    // train.keep_best, or in another folder.
    bool holds_best(std::int64_t step) const;
    // True where `checkpoint` is one of this run's folder.
    bool holds(const std::filesystem::path& checkpoint) const { return folder_ && folder_->holds(checkpoint); }

    // Locks the folder if it exists and returns the checkpoint that `resume` (FitOptions::resume) names, or an empty
    // path for a new run. Throws InvalidArgument where the folder cannot take the run, or IoError where `resume` names
    // no checkpoint.
    std::filesystem::path find_start(const std::string& resume, const OnWarning& on_warning = nullptr);
    // Begins a new run. `recipe` is TOML.
    void create(const std::string& recipe);
    // Resumes a run from a checkpoint: truncates metrics.jsonl to what it covers and removes later checkpoints.
    void resume(const std::string& recipe, const MetricsPosition& checkpoint, const OnWarning& on_warning = nullptr);
    // True where the folder has this checkpoint and none of a later step.
    bool is_newest(const std::filesystem::path& checkpoint) const;
    // For a run that has finished. Throws InvalidArgument where the checkpoint is of another folder: a run there would
    // have nothing to train.
    void require_unfinished(const std::filesystem::path& checkpoint) const;
    // For a run that has finished, instead of `resume`: `finish` returns its document, and nothing is recorded.
    void reopen();

    // Metrics are buffered until a checkpoint or the end of the run. These throw IoError where a full buffer cannot be
    // written.
    void step(const StepResult& result, double loss);
    void epoch(const EpochResult& result);
    // Lines of records/records_json.h, each with its line break.
    void records(const std::string& lines);
    // Lines made by Quarantine::lines. Those that come after the run still go to its file.
    void bad_samples(const std::string& lines) { quarantine_.add(lines); }
    std::int64_t bad_sample_count() const { return quarantine_.size(); }  // samples in quarantine.jsonl
    // Flushes the metrics and begins a checkpoint, or the best one; `state` gets the length of metrics.jsonl. Empty
    // if nothing is recorded.
    std::optional<NewCheckpoint> begin_checkpoint(RunState state, bool as_best);
    // Ends it once its files are written.
    void keep(const NewCheckpoint& checkpoint) { folder_->keep(checkpoint); }

    // Ends a run: writes its document and curves, and releases the folder. A run that `was_finished` when it was
    // resumed keeps the document that it has. Returns the document that the folder holds.
    std::string finish(const std::string& document, bool was_finished);
    // Ends a run that failed and does not throw; `trained`: it did at least one step.
    void fail(const std::string& reason, bool trained);

  private:
    void begin(std::int64_t step);
    void write(const std::string& line);
    void flush();
    void draw_curves();

    std::optional<RunFolder> folder_;
    std::optional<EventFile> events_;  // while recording
    Quarantine quarantine_;
    std::function<void(const std::string&)> on_record_;
};

}  // namespace stoker
