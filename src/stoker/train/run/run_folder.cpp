// Checkpoints are written under a temporary name, synced file by file, and renamed: the rename is
// the commit. Old ones are renamed away before they are deleted, so none is ever half there.
#include "stoker/train/run/run_folder.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/track/event_file.h"
#include "stoker/track/run_record.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;

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

void remove_whole(const fs::path& path) {
    std::error_code error;
    fs::remove_all(path, error);
    if (error) {
        throw IoError({.where = path.string(), .expected = "something that can be removed", .got = error.message()});
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
        remove_whole(final_name);  // a file system that cannot exchange
        rename_folder(temporary, final_name);
        return;
    }
    remove_whole(temporary);
}

// By way of another name, so that a half-deleted checkpoint is none.
void remove_checkpoint(const fs::path& checkpoint) {
    const fs::path old = checkpoint.parent_path() / (".old-" + checkpoint.filename().string());
    rename_folder(checkpoint, old);
    remove_whole(old);
}

std::set<std::string> names_in(const fs::path& folder) {
    std::set<std::string> names;
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(folder, none)) {
        names.insert(entry.path().filename().string());
    }
    return names;
}

// What a run tells of itself: nothing of it is for the run that takes its place.
bool is_told(const std::string& name) {
    const auto names = {kMetricsFile, kAccountFile, kCurves, kQuarantine};
    return is_event_file(name) || std::ranges::find(names, name) != names.end();
}

void remove_leftovers(const fs::path& checkpoints) {
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(checkpoints, none)) {
        const std::string name = entry.path().filename().string();
        if (name.starts_with(".writing-") || name.starts_with(".old-")) {
            remove_whole(entry.path());
        }
    }
}

}  // namespace

bool RunFolder::is_run() const {
    return fs::exists(path_ / kRecipeFile);
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
    const auto names = {kRecipeFile, kCheckpoints, kMetricsFile, kAccountFile, kCurves};
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
    recipe_before_ = is_run() ? std::optional(read_text(path_ / kRecipeFile)) : std::nullopt;
    before_ = names_in(path_);
    begun_ = true;
    write_file(path_ / kRecipeFile, recipe);
}

void RunFolder::create(const std::string& recipe) {
    open(recipe);
    if (recipe_before_ || failed_early()) {  // else what lies here is other programs'
        for (const std::string& name : names_in(path_)) {
            if (is_told(name)) {
                remove_whole(path_ / name);
                before_.erase(name);
            }
        }
    }
    remove_whole(path_ / kFailedFile);
}

void RunFolder::go_on(const std::string& recipe) {
    open(recipe);
    remove_whole(path_ / kFailedFile);
}

void RunFolder::fail(const std::string& reason, bool trained) {
    if (!begun_) {
        return;
    }
    std::error_code ignored;  // the error that ends the run is on its way, and says more
    try {
        if (!trained) {
            discard();
        }
        if (fs::exists(path_ / kRecipeFile, ignored) || fs::exists(path_ / kQuarantine, ignored)) {
            const nlohmann::json json = {{"error", reason}};
            write_file(path_ / kFailedFile, json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
        } else if (new_folder_) {
            fs::remove(path_, ignored);  // where nobody else put anything
        }
    } catch (const std::exception&) {
    }
}

// Takes away what this process made, but for the list of bad samples, which the user needs now.
void RunFolder::discard() {
    for (const std::string& name : names_in(path_)) {
        const bool ours = name == kRecipeFile || name == kCheckpoints || (is_told(name) && name != kQuarantine);
        if (ours && !before_.contains(name)) {
            remove_whole(path_ / name);
        }
    }
    if (recipe_before_) {
        write_file(path_ / kRecipeFile, *recipe_before_);
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
    const fs::path file = path_ / kMetricsFile;
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
    metrics_bytes_ += static_cast<std::int64_t>(done);
    pending_metrics_.erase(0, done);  // a later try goes on in the middle of the line
    if (fd < 0 || !pending_metrics_.empty()) {
        throw IoError({.where = file.string(), .expected = "room to write", .got = reason});
    }
}

void RunFolder::cut_metrics(std::int64_t bytes) {
    const fs::path file = path_ / kMetricsFile;
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
    write_file(path_ / kAccountFile, json + "\n");
}

std::string RunFolder::read_account() const {
    const fs::path file = path_ / kAccountFile;
    return fs::exists(file) ? read_text(file) : "";
}

void RunFolder::save(std::int64_t step, const Checkpoint& checkpoint) const {
    const fs::path all = path_ / kCheckpoints;
    make_directories(all);
    const fs::path final_name = all / fmt::to_string(step);
    const fs::path temporary = all / fmt::format(".writing-{}", step);
    remove_whole(temporary);
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
