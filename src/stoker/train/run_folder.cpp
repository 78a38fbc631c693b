// Checkpoints are written under a temporary name, synced file by file, and renamed: the rename is
// the commit. Old ones are renamed away before they are deleted, so none is ever half there.
#include "stoker/train/run_folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fmt/format.h>

#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/bridge/tensor.h"
#include "stoker/formats/safetensors.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;

constexpr const char* kModelFile = "model.safetensors";
constexpr const char* kOptimizerFile = "optimizer.safetensors";
constexpr const char* kStateFile = "state.json";

void make_directories(const fs::path& path) {
    std::error_code error;
    fs::create_directories(path, error);
    if (error) {
        throw IoError({.where = path.string(), .expected = "a folder that can be made", .got = error.message()});
    }
}

void write_tensors(const fs::path& path, const std::vector<NamedTensor>& tensors) {
    std::vector<at::Tensor> on_host;  // keeps copies alive until they are written
    std::vector<NamedView> views;
    for (const auto& [name, tensor] : tensors) {
        on_host.push_back(tensor.detach().to(at::kCPU).contiguous());
        views.push_back({name, view_of(on_host.back())});
    }
    write_safetensors(path, views);
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
    if (parsed.ec != std::errc() || parsed.ptr != name.data() + name.size() || !fs::exists(checkpoint / kStateFile)) {
        return std::nullopt;
    }
    return step;
}

// Complete checkpoints by step, oldest first.
std::vector<std::pair<std::int64_t, fs::path>> checkpoints_in(const fs::path& run) {
    std::vector<std::pair<std::int64_t, fs::path>> found;
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(run / "checkpoints", none)) {
        if (const auto step = step_of(entry.path())) {
            found.emplace_back(*step, entry.path());
        }
    }
    std::sort(found.begin(), found.end());
    return found;
}

void remove_leftovers(const fs::path& checkpoints) {
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(checkpoints, none)) {
        if (entry.path().filename().string().starts_with('.')) {
            fs::remove_all(entry.path());
        }
    }
}

}  // namespace

bool RunFolder::exists() const {
    return fs::exists(path_ / "recipe.toml") || fs::exists(path_ / "checkpoints");
}

void RunFolder::create(const std::string& recipe) {
    created_ = !fs::exists(path_);
    make_directories(path_);
    write_file(path_ / "recipe.toml", recipe);
}

bool RunFolder::discard() {
    if (!created_ || find_checkpoint(path_)) {
        return false;
    }
    fs::remove_all(path_);
    return true;
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
    metrics_bytes_ = std::min(size, bytes);
    if (size > bytes) {
        fs::resize_file(file, static_cast<std::uintmax_t>(bytes), error);
        if (error) {
            throw IoError({.where = file.string(), .expected = "a file that can be cut", .got = error.message()});
        }
    }
}

void RunFolder::write_account(const std::string& json) const {
    write_file(path_ / "account.json", json + "\n");
}

void RunFolder::save(std::int64_t step, const Checkpoint& checkpoint) const {
    const fs::path all = path_ / "checkpoints";
    make_directories(all);
    remove_leftovers(all);
    const fs::path final_name = all / fmt::to_string(step);
    if (fs::exists(final_name / kStateFile)) {
        return;  // the same step of a deterministic order: there already
    }
    const fs::path temporary = all / fmt::format(".writing-{}", step);
    make_directories(temporary);
    write_tensors(temporary / kModelFile, checkpoint.model);
    write_tensors(temporary / kOptimizerFile, checkpoint.optimizer);
    write_file(temporary / kStateFile, checkpoint.state);
    fs::rename(temporary, final_name);
    sync_directory(all);
    auto kept = checkpoints_in(path_);
    for (std::size_t i = 0; i + kKept < kept.size(); ++i) {
        const fs::path old = all / fmt::format(".old-{}", kept[i].first);
        fs::rename(kept[i].second, old);
        fs::remove_all(old);
    }
}

std::optional<fs::path> find_checkpoint(const fs::path& path) {
    if (fs::exists(path / kStateFile)) {
        return path;
    }
    const auto found = checkpoints_in(path);
    return found.empty() ? std::nullopt : std::optional(found.back().second);
}

Checkpoint read_checkpoint(const fs::path& path) {
    return {read_model(path), read_tensors(path / kOptimizerFile), read_text(path / kStateFile)};
}

std::vector<NamedTensor> read_model(const fs::path& checkpoint) {
    return read_tensors(checkpoint / kModelFile);
}

}  // namespace stoker
