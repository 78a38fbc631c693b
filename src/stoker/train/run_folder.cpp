// Checkpoints are written under a temporary name, synced file by file, and renamed: the rename is
// the commit. Old ones are renamed away before they are deleted, so none is ever half there.
#include "stoker/train/run_folder.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/track/event_file.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;

constexpr const char* kCheckpoints = "checkpoints";
constexpr const char* kFailedFile = "failed.json";

void make_directories(const fs::path& path) {
    std::error_code error;
    fs::create_directories(path, error);
    if (error) {
        throw IoError({.where = path.string(), .expected = "a folder that can be made", .got = error.message()});
    }
}

void rename_folder(const fs::path& from, const fs::path& to) {
    std::error_code error;
    fs::rename(from, to, error);
    if (error) {
        throw IoError({.where = to.string(), .expected = "a free name", .got = error.message()});
    }
}

void remove_folder(const fs::path& path) {
    std::error_code error;
    fs::remove_all(path, error);
    if (error) {
        throw IoError({.where = path.string(), .expected = "a folder that can be removed", .got = error.message()});
    }
}

// Gives a finished checkpoint its name. The same step may have one already, of before its epoch's evaluation: the
// two change places in one step, so that there is never none, and the old one goes.
void commit(const fs::path& temporary, const fs::path& final_name) {
    if (!fs::exists(final_name)) {
        rename_folder(temporary, final_name);
        return;
    }
    if (::renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, final_name.c_str(), RENAME_EXCHANGE) != 0) {
        remove_folder(final_name);  // a file system that cannot exchange
        rename_folder(temporary, final_name);
        return;
    }
    remove_folder(temporary);
}

// By way of another name, so that a half-deleted checkpoint is none.
void remove_checkpoint(const fs::path& checkpoint) {
    const fs::path old = checkpoint.parent_path() / (".old-" + checkpoint.filename().string());
    rename_folder(checkpoint, old);
    remove_folder(old);
}

void remove_event_files(const fs::path& run) {
    std::error_code ignored;
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator(run, ignored)) {
        if (is_event_file(entry.path())) {
            found.push_back(entry.path());
        }
    }
    for (const fs::path& file : found) {
        fs::remove(file, ignored);
    }
}

void remove_leftovers(const fs::path& checkpoints) {
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(checkpoints, none)) {
        const std::string name = entry.path().filename().string();
        if (name.starts_with(".writing-") || name.starts_with(".old-")) {
            remove_folder(entry.path());
        }
    }
}

}  // namespace

bool RunFolder::is_run() const {
    return fs::exists(path_ / "recipe.toml");
}

RunFolder::~RunFolder() {
    if (lock_ >= 0) {
        ::close(lock_);
    }
}

bool RunFolder::failed_early() const {
    return fs::exists(path_ / kFailedFile) && !find_checkpoint(path_);
}

bool RunFolder::exists() const {
    const auto names = {"recipe.toml", kCheckpoints, "metrics.jsonl", "account.json"};
    return std::any_of(names.begin(), names.end(), [&](const char* name) { return fs::exists(path_ / name); });
}

void RunFolder::lock() {
    if (lock_ >= 0) {
        return;
    }
    lock_ = ::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    // Some file systems know no locks and say so: then there is nothing to keep others out with.
    if (lock_ >= 0 && ::flock(lock_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
        ::close(std::exchange(lock_, -1));
        throw InvalidArgument({.where = path_.string(),
                               .expected = "a folder that no other process trains in",
                               .got = "one in use",
                               .hint = "wait for the other run, or add --out DIR for another folder"});
    }
}

void RunFolder::open(const std::string& recipe) {
    const bool new_folder = !fs::exists(path_);
    make_directories(path_);
    lock();  // first: what lies here may be another run's, begun a moment ago, and not ours to take away
    new_folder_ = new_folder;
    new_run_ = !exists();
    begun_ = true;
    write_file(path_ / "recipe.toml", recipe);
    std::error_code none;
    fs::remove(path_ / kFailedFile, none);
}

void RunFolder::create(const std::string& recipe) {
    open(recipe);
    new_run_ = true;
    std::error_code ignored;  // what an earlier run met is not this one's
    for (const char* name : {"account.json", kCurves, kQuarantine}) {
        fs::remove(path_ / name, ignored);
    }
    remove_event_files(path_);
    cut_metrics(0);
}

void RunFolder::go_on(const std::string& recipe) {
    open(recipe);
}

void RunFolder::fail(const std::string& reason) {
    const bool trained = metrics_bytes_ > 0 || find_checkpoint(path_).has_value();
    if (!begun_ || (!trained && !new_run_)) {
        return;
    }
    if (!trained) {
        discard();
        return;
    }
    try {
        const nlohmann::json json = {{"error", reason}};
        write_file(path_ / kFailedFile, json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
    } catch (const IoError&) {
        // The error that ends the run is on its way, and says more.
    }
}

void RunFolder::discard() {
    std::error_code ignored;  // another error is on its way
    for (const char* name : {"recipe.toml", "metrics.jsonl", kCheckpoints, kCurves}) {
        fs::remove_all(path_ / name, ignored);
    }
    remove_event_files(path_);
    if (new_folder_ && !fs::exists(path_ / kQuarantine, ignored)) {  // that list is what the user needs now
        fs::remove_all(path_, ignored);
    }
}

bool RunFolder::holds(const fs::path& checkpoint) const {
    std::error_code none;
    return fs::equivalent(fs::weakly_canonical(checkpoint, none).parent_path(), path_ / kCheckpoints, none);
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
    const fs::path file = path_ / "metrics.jsonl";
    const int fd = ::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    std::size_t done = 0;
    while (fd >= 0 && done < pending_metrics_.size()) {
        const ssize_t written = ::write(fd, pending_metrics_.data() + done, pending_metrics_.size() - done);
        if (written < 0 && errno != EINTR) {
            break;
        }
        done += written > 0 ? static_cast<std::size_t>(written) : 0;
    }
    const std::string reason = errno_text();
    if (fd >= 0) {
        ::close(fd);
    }
    if (fd < 0 || done < pending_metrics_.size()) {
        throw IoError({.where = file.string(), .expected = "room to write", .got = reason});
    }
    metrics_bytes_ += static_cast<std::int64_t>(done);
    pending_metrics_.clear();
}

void RunFolder::cut_metrics(std::int64_t bytes) {
    const fs::path file = path_ / "metrics.jsonl";
    std::error_code error;
    const auto size = fs::exists(file) ? static_cast<std::int64_t>(fs::file_size(file)) : 0;
    metrics_bytes_ = std::clamp<std::int64_t>(bytes, 0, size);
    if (size > metrics_bytes_) {
        fs::resize_file(file, static_cast<std::uintmax_t>(metrics_bytes_), error);
        if (error) {
            throw IoError({.where = file.string(), .expected = "a file that can be cut", .got = error.message()});
        }
    }
}

void RunFolder::write_account(const std::string& json) const {
    write_file(path_ / "account.json", json + "\n");
}

std::string RunFolder::read_account() const {
    const fs::path file = path_ / "account.json";
    return fs::exists(file) ? read_text(file) : "";
}

void RunFolder::save(std::int64_t step, const Checkpoint& checkpoint) const {
    const fs::path all = path_ / kCheckpoints;
    make_directories(all);
    const fs::path final_name = all / fmt::to_string(step);
    const fs::path temporary = all / fmt::format(".writing-{}", step);
    remove_folder(temporary);
    make_directories(temporary);
    write_checkpoint(temporary, checkpoint);
    commit(temporary, final_name);
    sync_directory(all);
    sync_directory(path_);  // for the first one, which `checkpoints` is new with
    try {
        const auto kept = checkpoints_in(path_ / kCheckpoints);
        for (std::size_t i = 0; i + kKept < kept.size(); ++i) {
            remove_checkpoint(kept[i].second);
        }
        remove_leftovers(all);
    } catch (const IoError&) {
        // The new checkpoint is safe. An old one that somebody reads just now is no reason to stop a run.
    }
}

void RunFolder::cut_checkpoints(std::int64_t step) const {
    for (const auto& [at, checkpoint] : checkpoints_in(path_ / kCheckpoints)) {
        if (at > step) {
            remove_checkpoint(checkpoint);
        }
    }
    remove_leftovers(path_ / kCheckpoints);
}

}  // namespace stoker
