// The folder of one run: recipe.toml as used, metrics.jsonl, account.json, failed.json, checkpoints/<step>/ and best/.
// A checkpoint appears complete or not at all, at whatever moment the process is killed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <string>

#include "stoker/base/folder_lock.h"
#include "stoker/train/run/checkpoint.h"
#include "stoker/train/run/metrics_position.h"

namespace stoker {

inline constexpr const char* kCurves = "curves.svg";            // run_recorder.h
inline constexpr const char* kQuarantine = "quarantine.jsonl";  // quarantine.h

using OnWarning = std::function<void(const std::string& line)>;

// A checkpoint that is being written.
struct NewCheckpoint {
    std::filesystem::path folder;  // for its files
    std::filesystem::path name;    // which the folder gets once they are written
    std::string state = {};        // for state.json
};

class RunFolder {
  public:
    explicit RunFolder(std::filesystem::path path) : path_(std::move(path)) {}
    RunFolder(const RunFolder&) = delete;
    RunFolder& operator=(const RunFolder&) = delete;

    const std::filesystem::path& path() const { return path_; }

    // True where the folder holds a run, or a file that a run would overwrite.
    bool exists() const;
    // True where a run failed here without a checkpoint; a new run may take its place.
    bool failed_early() const;
    // True where a run was killed here before its first checkpoint and has recorded nothing. Only after `lock`, and
    // only where the file system has locks: the run could be another process's.
    bool killed_early() const;
    // Keeps other processes from running in this folder, if it exists, for the lifetime of this object. Throws
    // InvalidArgument where another process runs in it, and IoError where it cannot be opened. On a file system without
    // locks it succeeds, and `lock_problem` has the reason that the system gave.
    void lock();
    std::string lock_problem() const { return lock_ ? lock_->problem() : ""; }
    // The checkpoint that a run here begins at; empty: it begins anew. `resume`: empty, "auto", or a checkpoint or run
    // folder. Locks the folder. Throws InvalidArgument where another run or other files are in the way, and IoError
    // if `resume` lacks a checkpoint.
    std::filesystem::path find_start(const std::string& resume);
    // If a checkpoint is whole, renames the damaged ones after it to <step>.damaged, with a line for each. Reads the
    // newest as a whole. Locks the folder.
    void set_damaged_aside(const OnWarning& on_warning);
    // Begins a run: makes the folder, locks it, writes recipe.toml and removes what an earlier run recorded.
    void create(const std::string& recipe);
    // The same for a run that resumes: everything in the folder stays.
    void resume(const std::string& recipe);
    // For a run that has finished: nothing is written; failed.json of a failure after the last checkpoint is removed.
    void reopen();
    // Ends a run that failed; does not throw. If it `trained` a step, everything stays, and `reason` goes into
    // failed.json. Otherwise what it made is removed and recipe.toml restored; quarantine.jsonl stays, and
    // failed.json is written if quarantine.jsonl or an earlier recipe.toml exists.
    void fail(const std::string& reason, bool trained);
    // True where `checkpoint` is one of this run, or its best one.
    bool holds(const std::filesystem::path& checkpoint) const;

    // Appends a line of JSON to metrics.jsonl, buffered until `flush_metrics`.
    void metric(const std::string& line);
    void flush_metrics();
    std::int64_t metrics_bytes() const { return metrics_bytes_; }
    // Shortens metrics.jsonl to what a checkpoint covers (kept_metrics). Returns a line about records that are missing
    // or damaged; empty if there are none.
    std::string truncate_metrics(const MetricsPosition& checkpoint);

    void write_account(const std::string& json) const;
    // The text of account.json; empty where there is none.
    std::string read_account() const;

    // Begins checkpoints/<step>/, or best/.
    NewCheckpoint new_checkpoint(std::int64_t step, bool as_best) const;
    // Ends it, then removes all checkpoints but the newest kKept; one that cannot be removed is tried again next time.
    void keep(const NewCheckpoint& checkpoint) const;
    static constexpr std::size_t kKept = 3;
    // Removes the checkpoints after `step`, which do not belong to a run that resumes there, and leftovers of a process
    // that was killed while it wrote or removed one. A best/ after `step` goes with them; alone it stays, since a run
    // that was killed writes it again.
    void remove_checkpoints_after(std::int64_t step) const;

  private:
    void open(const std::string& recipe);
    void remove_temporaries() const;
    void discard();

    std::filesystem::path path_;
    bool begun_ = false;                        // by `create` or `resume`
    bool new_folder_ = false;                   // made by this object
    std::set<std::string> before_;              // names in the folder before the run that were not removed
    std::optional<std::string> recipe_before_;  // the text of recipe.toml before the run
    std::optional<FolderLock> lock_;
    std::string pending_metrics_;
    std::int64_t metrics_bytes_ = 0;
};

}  // namespace stoker
