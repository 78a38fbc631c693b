// A checkpoint's files are synced before its folder gets its name (atomic_folder.h). An old checkpoint is renamed
// before it is deleted, so no name ever holds half a checkpoint.
#include "stoker/train/run/run_folder.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/base/json_depth.h"
#include "stoker/base/pluralize.h"
#include "stoker/track/event_file.h"
#include "stoker/track/run_record.h"
#include "stoker/train/run/atomic_folder.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDamaged = ".damaged";  // ends the name of a file or folder that is kept, and not used
constexpr const char* kOtherFolder = "choose another folder (--out DIR; FitOptions::out in C++)";

void remove_checkpoint(const fs::path& checkpoint) {
    const fs::path old = checkpoint.parent_path() / (".old-" + checkpoint.filename().string());
    rename_folder(checkpoint, old);
    remove_path(old);
}

std::set<std::string> names_in(const fs::path& folder) {
    std::set<std::string> names;
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(folder, none)) {
        names.insert(entry.path().filename().string());
    }
    return names;
}

// True if the checkpoint is of a later step, or damaged. False if there is none.
bool is_later(const fs::path& checkpoint, std::int64_t step) {
    try {
        return fs::exists(checkpoint) && read_step(checkpoint) > step;
    } catch (const DataError&) {
        return true;
    }
}

// Files that a run records about itself, and that a run in its place must not inherit.
bool is_record(const std::string& name) {
    const auto names = {kMetricsFile, kAccountFile, kCurves, kQuarantine};
    return is_event_file(name) || std::ranges::find(names, name) != names.end();
}

// Links among what a run writes and removes lead to other people's files, in a run folder that was handed over.
void require_no_links(const fs::path& run) {
    const auto written = {kRecipeFile, kFailedFile, kCheckpoints, kBest};
    for (const std::string& name : names_in(run)) {
        if (is_record(name) || name.ends_with(kDamaged) || std::ranges::find(written, name) != written.end()) {
            require_no_link(run / name);
        }
    }
}

// A temporary name of write_file (base/file.cpp): recipe.toml.tmp-1234-0.
bool is_temporary(const std::string& name) {
    const auto names = {kRecipeFile, kAccountFile, kCurves, kFailedFile};
    return std::ranges::any_of(names, [&](const char* file) { return name.starts_with(std::string(file) + ".tmp-"); });
}

void restore_checkpoints(const fs::path& run) {
    for (const std::string& name : names_in(run / kCheckpoints)) {
        if (!name.starts_with(kReplaced)) {
            continue;
        }
        const std::string own = name.substr(kReplaced.size());
        restore_replaced(own == kBest ? run / own : run / kCheckpoints / own, run / kCheckpoints);
    }
}

void remove_leftovers(const fs::path& checkpoints) {
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(checkpoints, none)) {
        const std::string name = entry.path().filename().string();
        if (name.starts_with(".writing-") || name.starts_with(".old-") || name.starts_with(kReplaced)) {
            remove_path(entry.path());
        }
    }
}

// A file or folder that no run leaves which failed early, and no batch job; empty if there is none.
std::string other_file(const fs::path& folder) {
    for (const std::string& name : names_in(folder)) {
        const bool left_by_failure = name == kFailedFile || name == kQuarantine || is_temporary(name);
        const bool log = name.ends_with(".log") || name.ends_with(".out") || name.ends_with(".err");  // of a batch job
        if (!left_by_failure && !log && !name.starts_with("events.out.tfevents.") && !name.starts_with('.')) {
            return name;
        }
    }
    return "";
}

}  // namespace

bool RunFolder::failed_early() const {
    return fs::exists(path_ / kFailedFile) && !find_checkpoint(path_);
}

// True if a run was killed here before its first checkpoint and has recorded nothing. Only after `lock`, and only if
// the file system has locks: the run could be another process's.
bool RunFolder::killed_early() const {
    const bool locked = lock_ && lock_->problem().empty();
    std::error_code none;
    const bool has_metrics = fs::exists(path_ / kMetricsFile) && fs::file_size(path_ / kMetricsFile, none) > 0;
    if (!locked || !fs::exists(path_ / kRecipeFile) || has_metrics || fs::exists(path_ / kAccountFile) ||
        find_checkpoint(path_)) {
        return false;
    }
    return std::ranges::any_of(names_in(path_), [](const std::string& name) { return is_event_file(name); });
}

bool RunFolder::exists() const {
    const auto names = {kRecipeFile, kCheckpoints, kMetricsFile, kAccountFile, kCurves};
    return std::any_of(names.begin(), names.end(), [&](const char* name) { return fs::exists(path_ / name); });
}

void RunFolder::lock() {
    if (lock_ || !fs::is_directory(path_)) {
        return;
    }
    require_no_links(path_);
    lock_ = FolderLock::try_lock(path_);
    if (!lock_) {
        throw InvalidArgument({.where = path_.string(),
                               .expected = "a folder that no other process trains in",
                               .got = "one that is in use",
                               .hint = fmt::format("wait for the other run, or {}", kOtherFolder)});
    }
}

// Renames damaged checkpoints after the newest whole one, so that a run continues that its scheduler starts again.
void RunFolder::set_damaged_aside(const OnWarning& on_warning) {
    lock();
    restore_checkpoints(path_);
    std::vector<std::pair<fs::path, std::string>> damaged;  // and why
    auto checkpoints = checkpoints_in(path_ / kCheckpoints);
    for (auto newest = checkpoints.rbegin(); newest != checkpoints.rend(); ++newest) {
        const std::string problem = damage_of(newest->second);
        if (!problem.empty()) {
            damaged.emplace_back(newest->second, problem);
            continue;
        }
        for (const auto& [path, why] : damaged) {
            const fs::path aside = path.string() + kDamaged;
            remove_path(aside);
            fs::rename(path, aside);
            if (on_warning) {
                on_warning(fmt::format("{}; it is kept as {}, and the run continues from {}", why, aside.string(),
                                       newest->second.string()));
            }
        }
        return;
    }
}

fs::path RunFolder::find_start(const std::string& resume) {
    lock();
    restore_checkpoints(path_);
    if (const std::string other = fs::exists(path_ / kRecipeFile) ? "" : other_file(path_); !other.empty()) {
        throw InvalidArgument({.where = path_.string(),
                               .expected = "a run folder, or a new or empty folder",
                               .got = fmt::format("a folder with other files, such as {}", other),
                               .hint = kOtherFolder});
    }
    if (resume.empty()) {
        if (exists() && !failed_early() && !killed_early()) {
            throw InvalidArgument(
                {.where = path_.string(),
                 .expected = "a folder for a new run",
                 .got = "one that already holds a run",
                 .hint = fmt::format("--resume auto (FitOptions::resume in C++) {}, or {}",
                                     find_checkpoint(path_) ? "resumes it" : "begins it again, without a checkpoint",
                                     kOtherFolder)});
        }
        return {};
    }
    const auto checkpoint = find_checkpoint(resume == "auto" ? path_ : fs::path(resume));
    if (!checkpoint && resume != "auto") {
        throw IoError({.where = resume, .expected = "a checkpoint, or a run folder with one", .got = "none"});
    }
    if (checkpoint && exists() && !holds(*checkpoint)) {
        throw InvalidArgument({.where = path_.string(),
                               .expected = "a new folder, or the folder of the checkpoint's run",
                               .got = "one that holds another run",
                               .hint = kOtherFolder});
    }
    return checkpoint.value_or("");
}

void RunFolder::open(const std::string& recipe) {
    const bool new_folder = !fs::exists(path_);
    make_directories(path_);
    lock();  // before the folder is read: another run may have begun in it a moment ago
    new_folder_ = new_folder;
    remove_temporaries();
    recipe_before_ = fs::exists(path_ / kRecipeFile) ? std::optional(read_text(path_ / kRecipeFile)) : std::nullopt;
    before_ = names_in(path_);
    begun_ = true;
    write_file(path_ / kRecipeFile, recipe);
}

void RunFolder::create(const std::string& recipe) {
    open(recipe);
    if (recipe_before_ || failed_early()) {  // otherwise the files are other programs'
        for (const std::string& name : names_in(path_)) {
            if (is_record(name)) {
                remove_path(path_ / name);
                before_.erase(name);
            }
        }
    }
    remove_path(path_ / kFailedFile);
    remove_leftovers(path_ / kCheckpoints);
}

// What processes left that were killed while they wrote a file. The lock excludes living ones.
void RunFolder::remove_temporaries() const {
    if (!lock_ || !lock_->problem().empty()) {
        return;
    }
    for (const std::string& name : names_in(path_)) {
        if (is_temporary(name)) {
            remove_path(path_ / name);
        }
    }
}

void RunFolder::reopen() {
    lock();
    remove_temporaries();
    remove_leftovers(path_ / kCheckpoints);
    remove_path(path_ / kFailedFile);
}

void RunFolder::resume(const std::string& recipe) {
    open(recipe);
    remove_path(path_ / kFailedFile);
}

void RunFolder::fail(const std::string& reason, bool trained) {
    if (!begun_) {
        return;
    }
    std::error_code ignored;  // the error that ended the run matters more
    try {
        if (!trained) {
            discard();
        }
        if (fs::exists(path_ / kRecipeFile, ignored) || fs::exists(path_ / kQuarantine, ignored)) {
            const nlohmann::json json = {{"error", reason}};
            write_file(path_ / kFailedFile, json_text(json, 2) + "\n");
        } else if (new_folder_) {
            fs::remove(path_, ignored);  // only if it is empty
        }
    } catch (const std::exception&) {
    }
}

// Removes what this process made, except quarantine.jsonl, which the user needs to find the cause.
void RunFolder::discard() {
    for (const std::string& name : names_in(path_)) {
        const bool ours = name == kRecipeFile || name == kCheckpoints || (is_record(name) && name != kQuarantine);
        if (ours && !before_.contains(name)) {
            remove_path(path_ / name);
        }
    }
    if (recipe_before_) {
        write_file(path_ / kRecipeFile, *recipe_before_);
    }
}

bool RunFolder::holds(const fs::path& checkpoint) const {
    std::error_code none;
    return fs::equivalent(fs::weakly_canonical(checkpoint, none).parent_path(), path_ / kCheckpoints, none) ||
           fs::equivalent(checkpoint, path_ / kBest, none);
}

void RunFolder::metric(const std::string& line) {
    pending_metrics_ += line;
    pending_metrics_ += '\n';
    constexpr std::size_t kFlushAt = std::size_t{1} << 16;
    if (pending_metrics_.size() >= kFlushAt) {
        flush_metrics();
    }
}

void RunFolder::flush_metrics() {
    const fs::path file = path_ / kMetricsFile;
    const Descriptor out(::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0666));
    const std::size_t done = out.get() < 0 ? 0 : write_bytes(out.get(), as_bytes(pending_metrics_));
    const int reason = errno;
    metrics_bytes_ += static_cast<std::int64_t>(done);
    pending_metrics_.erase(0, done);  // a later call continues in the middle of the line
    if (out.get() < 0 || !pending_metrics_.empty()) {
        throw errno_error(file.string(), "room to write", reason);
    }
}

std::string RunFolder::truncate_metrics(const MetricsPosition& checkpoint) {
    const fs::path file = path_ / kMetricsFile;
    const MappedFile mapped = is_file(file) ? MappedFile(file) : MappedFile();
    const std::string_view text = as_text(mapped.bytes());
    const KeptMetrics kept = kept_metrics(text, checkpoint);
    metrics_bytes_ = kept.bytes;
    if (kept.damaged > 0) {
        std::string lines;
        for (const std::string_view part : kept.parts) {
            lines += part;
        }
        const std::string aside = file.string() + kDamaged;
        write_file(aside, text);
        write_file(file, lines);
        return fmt::format("{}: {} cannot be read, and left out; the whole file is kept as {}", file.string(),
                           pluralize(kept.damaged, "line"), aside);
    }
    if (std::ssize(text) > kept.bytes) {
        const Descriptor open(::open(file.c_str(), O_WRONLY | O_NOFOLLOW | O_CLOEXEC));
        if (open.get() < 0 || ::ftruncate(open.get(), kept.bytes) != 0) {
            throw errno_error(file.string(), "a file that can be truncated");
        }
    }
    return kept.last_step >= checkpoint.step
               ? ""
               : fmt::format(
                     "{}: its records end at step {}, and the checkpoint is of step {}: those in between are lost",
                     file.string(), kept.last_step, checkpoint.step);
}

void RunFolder::write_account(const std::string& json) const {
    write_file(path_ / kAccountFile, json + "\n");
}

std::string RunFolder::read_account() const {
    const fs::path file = path_ / kAccountFile;
    return fs::exists(file) ? read_text(file) : "";
}

NewCheckpoint RunFolder::new_checkpoint(std::int64_t step, bool as_best) const {
    const fs::path all = path_ / kCheckpoints;
    const fs::path name = as_best ? path_ / kBest : all / fmt::to_string(step);
    return {.folder = new_folder(name, all), .name = name};
}

void RunFolder::keep(const NewCheckpoint& checkpoint) const {
    commit_folder(checkpoint.folder, checkpoint.name);
    sync_directory(path_ / kCheckpoints);
    sync_directory(path_);  // `checkpoints` may be new
    try {
        const auto kept = checkpoints_in(path_ / kCheckpoints);
        for (std::size_t i = 0; i + kKept < kept.size(); ++i) {
            remove_checkpoint(kept[i].second);
        }
        remove_leftovers(path_ / kCheckpoints);
    } catch (const IoError&) {
        // The new checkpoint is safe. An old one that cannot be removed must not stop the run.
    }
}

void RunFolder::remove_checkpoints_after(std::int64_t step) const {
    bool rewound = false;
    const bool later_best = is_later(path_ / kBest, step);
    for (const auto& [at, checkpoint] : checkpoints_in(path_ / kCheckpoints)) {
        if (at > step) {
            remove_checkpoint(checkpoint);
            rewound = true;
        }
    }
    if (rewound && later_best) {
        remove_path(path_ / kBest);
    }
    remove_leftovers(path_ / kCheckpoints);
}

}  // namespace stoker
