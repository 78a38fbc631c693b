// The folder of one run: recipe.toml as used, metrics.jsonl, account.json, failed.json and checkpoints/<step>/.
// A checkpoint appears complete or not at all, whatever moment the process dies at.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>

#include "stoker/train/run/checkpoint.h"

namespace stoker {

inline constexpr const char* kCurves = "curves.svg";            // tracker.h
inline constexpr const char* kQuarantine = "quarantine.jsonl";  // quarantine.h

class RunFolder {
  public:
    explicit RunFolder(std::filesystem::path path) : path_(std::move(path)) {}
    RunFolder(const RunFolder&) = delete;
    RunFolder& operator=(const RunFolder&) = delete;
    ~RunFolder();

    const std::filesystem::path& path() const { return path_; }

    // True where a run was begun here before, or a file lies here that a run would overwrite.
    bool exists() const;
    // True where a run was begun here before.
    bool is_run() const;
    // True where a run failed here and left no checkpoint to go on from: the next one may take its place.
    bool failed_early() const;
    // Keeps other processes from running in this folder, where it is there, until this object goes. Throws
    // InvalidArgument where one does.
    void lock();
    // Begins a run: makes the folder, locks it, writes recipe.toml, and takes away what an earlier run told here.
    void create(const std::string& recipe);
    // The same for a run that goes on from a checkpoint: all that is here stays.
    void go_on(const std::string& recipe);
    // Ends a run that failed, and does not throw. Where it `trained` a step, all of it stays, with `reason` in
    // failed.json. Else the folder is as it was, but for its list of bad samples; failed.json is there if that is, or
    // if a recipe was here before.
    void fail(const std::string& reason, bool trained);
    // True where `checkpoint` is one of this folder's.
    bool holds(const std::filesystem::path& checkpoint) const;

    // Appends a line of JSON to metrics.jsonl, buffered until `flush_metrics`.
    void metric(const std::string& line);
    void flush_metrics();
    std::int64_t metrics_bytes() const { return metrics_bytes_; }
    // Cuts metrics.jsonl back to its first `bytes` bytes: what a checkpoint has seen.
    void cut_metrics(std::int64_t bytes);

    void write_account(const std::string& json) const;
    // What write_account wrote last; empty where it never did.
    std::string read_account() const;

    // Writes checkpoints/<step>/ durably, then removes all but the newest kKept; one that cannot be
    // removed now is tried again at the next save.
    void save(std::int64_t step, const Checkpoint& checkpoint) const;
    static constexpr std::size_t kKept = 3;
    // Removes the checkpoints after `step`, since a run that goes on from an older one leaves their path, and what
    // a process that died while writing has left.
    void cut_checkpoints(std::int64_t step) const;

  private:
    void open(const std::string& recipe);
    void discard();

    std::filesystem::path path_;
    bool begun_ = false;  // by `create` or `go_on`
    bool new_folder_ = false;
    std::set<std::string> before_;              // names that were here before, and still are
    std::optional<std::string> recipe_before_;  // recipe.toml, where it was
    int lock_ = -1;                             // a descriptor of the folder
    std::string pending_metrics_;
    std::int64_t metrics_bytes_ = 0;
};

}  // namespace stoker
