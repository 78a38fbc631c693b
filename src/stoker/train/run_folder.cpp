// Checkpoints are written under a temporary name, synced file by file, and renamed: the rename is
// the commit. Old ones are renamed away before they are deleted, so none is ever half there.
#include "stoker/train/run_folder.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/bridge/tensor.h"
#include "stoker/formats/safetensors.h"
#include "stoker/track/event_file.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;

constexpr const char* kCheckpoints = "checkpoints";
constexpr const char* kModelFile = "model.safetensors";
constexpr const char* kEmaFile = "ema.safetensors";
constexpr const char* kOptimizerFile = "optimizer.safetensors";
constexpr const char* kStateFile = "state.json";
constexpr const char* kFailedFile = "failed.json";

void make_directories(const fs::path& path) {
    std::error_code error;
    fs::create_directories(path, error);
    if (error) {
        throw IoError({.where = path.string(), .expected = "a folder that can be made", .got = error.message()});
    }
}

std::vector<NamedTensor> read_tensors(const fs::path& path) {
    const SafetensorsFile file(path);
    std::vector<NamedTensor> tensors;
    for (const auto& [name, view] : file.tensors()) {
        tensors.push_back({name, copy_of(view)});
    }
    return tensors;
}

std::optional<std::int64_t> step_of(const fs::path& checkpoint) {
    const std::string name = checkpoint.filename().string();
    std::int64_t step = 0;
    const auto parsed = std::from_chars(name.data(), name.data() + name.size(), step);
    if (parsed.ec != std::errc() || step < 0 || parsed.ptr != name.data() + name.size() ||
        !fs::exists(checkpoint / kStateFile)) {
        return std::nullopt;
    }
    return step;
}

// The complete ones of a folder of checkpoints by step, oldest first.
std::vector<std::pair<std::int64_t, fs::path>> checkpoints_in(const fs::path& folder) {
    std::vector<std::pair<std::int64_t, fs::path>> found;
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(folder, none)) {
        if (const auto step = step_of(entry.path())) {
            found.emplace_back(*step, entry.path());
        }
    }
    std::sort(found.begin(), found.end());
    return found;
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

void write_tensors(const fs::path& path, const std::vector<NamedTensor>& tensors) {
    std::vector<at::Tensor> on_host;  // keeps copies alive until they are written
    std::vector<NamedView> views;
    for (const auto& [name, tensor] : tensors) {
        on_host.push_back(tensor.detach().to(at::kCPU).contiguous());
        views.push_back({name, view_of(on_host.back())});
    }
    write_safetensors(path, views);
}

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
    write_tensors(temporary / kModelFile, checkpoint.model);
    write_tensors(temporary / kOptimizerFile, checkpoint.optimizer);
    if (!checkpoint.ema.empty()) {
        write_tensors(temporary / kEmaFile, checkpoint.ema);
    }
    write_file(temporary / kStateFile, checkpoint.state);
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

std::optional<fs::path> find_checkpoint(const fs::path& path) {
    if (fs::exists(path / kStateFile)) {
        return path;
    }
    auto found = checkpoints_in(path / kCheckpoints);
    if (found.empty()) {
        found = checkpoints_in(path);
    }
    return found.empty() ? std::nullopt : std::optional(found.back().second);
}

namespace {

[[noreturn]] void refuse_state(const fs::path& checkpoint, const std::string& got) {
    throw DataError({.path = (checkpoint / kStateFile).string()},
                    {.where = "checkpoint", .expected = "a state.json that Stoker wrote", .got = got});
}

Checkpoint read_whole(const fs::path& path) {
    const bool averaged = fs::exists(path / kEmaFile);
    Checkpoint checkpoint{.model = read_tensors(path / kModelFile),
                          .optimizer = read_tensors(path / kOptimizerFile),
                          .ema = averaged ? read_tensors(path / kEmaFile) : std::vector<NamedTensor>(),
                          .state = read_text(path / kStateFile)};
    if (!nlohmann::json::accept(checkpoint.state)) {
        refuse_state(path, "text that is no JSON");
    }
    return checkpoint;
}

// Which of those before a damaged checkpoint can be read; empty where none can.
std::string advice_after_damage(const fs::path& damaged) {
    const fs::path path = (damaged / "").lexically_normal().parent_path();
    auto others = checkpoints_in(path.parent_path());
    const std::optional<std::int64_t> step = step_of(path);
    std::erase_if(others, [&](const auto& other) { return !step || other.first >= *step; });
    for (auto other = others.rbegin(); other != others.rend(); ++other) {
        try {
            read_whole(other->second);
            return fmt::format("--resume {} goes on from the one before", other->second.string());
        } catch (const Error&) {
            continue;  // damaged, too
        }
    }
    return "";
}

}  // namespace

Checkpoint read_checkpoint(const fs::path& path) {
    try {
        return read_whole(path);
    } catch (const DataError& error) {
        ErrorInfo info = error.info();
        info.hint = advice_after_damage(path);
        throw DataError(error.place(), info);
    } catch (const IoError& error) {
        const std::string advice = advice_after_damage(path);
        throw IoError(error.what() + (advice.empty() ? "" : "; " + advice));
    }
}

namespace {

template <typename Value>
Value read_state(const fs::path& checkpoint, const char* key) {
    try {
        return nlohmann::json::parse(read_text(checkpoint / kStateFile)).value(key, Value());
    } catch (const nlohmann::json::exception& error) {
        refuse_state(checkpoint, error.what());
    }
}

}  // namespace

std::vector<std::string> read_classes(const fs::path& checkpoint) {
    return read_state<std::vector<std::string>>(checkpoint, "classes");
}

std::string read_trained_recipe(const fs::path& checkpoint) {
    return read_state<std::string>(checkpoint, "recipe");
}

std::vector<NamedTensor> read_model(const fs::path& checkpoint) {
    return read_tensors(checkpoint / (fs::exists(checkpoint / kEmaFile) ? kEmaFile : kModelFile));
}

std::vector<NamedTensor> read_weights(const fs::path& path) {
    if (!fs::is_directory(path)) {
        return read_tensors(path);
    }
    const auto checkpoint = find_checkpoint(path);
    if (!checkpoint) {
        throw IoError({.where = path.string(),
                       .expected = "a .safetensors file, a checkpoint or a run folder",
                       .got = "a folder without a checkpoint"});
    }
    return read_model(*checkpoint);
}

}  // namespace stoker
