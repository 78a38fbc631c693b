// A damaged checkpoint is said to be one with the name of the next older one that can be read, which takes a while to
// find out and is worth it.
#include "stoker/train/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/bridge/tensor.h"
#include "stoker/formats/safetensors.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;

constexpr const char* kModelFile = "model.safetensors";
constexpr const char* kEmaFile = "ema.safetensors";
constexpr const char* kOptimizerFile = "optimizer.safetensors";
constexpr const char* kStateFile = "state.json";

ModelFile read_model_file(const fs::path& path) {
    const SafetensorsFile file(path);
    ModelFile model{.tensors = {}, .about = file.metadata(), .path = path.string()};
    for (const auto& [name, view] : file.tensors()) {
        model.tensors.push_back({name, copy_of(view)});
    }
    return model;
}

std::vector<NamedTensor> read_tensors(const fs::path& path) {
    return read_model_file(path).tensors;
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
std::string advice_after_damage(const fs::path& damaged, const char* option) {
    const fs::path path = (damaged / "").lexically_normal().parent_path();
    auto others = checkpoints_in(path.parent_path());
    const std::optional<std::int64_t> step = step_of(path);
    std::erase_if(others, [&](const auto& other) { return !step || other.first >= *step; });
    for (auto other = others.rbegin(); other != others.rend(); ++other) {
        try {
            read_whole(other->second);
            return fmt::format("{} {} is the one before", option, other->second.string());
        } catch (const Error&) {
            continue;  // damaged, too
        }
    }
    return "";
}

// Gives what `read` gives; where it cannot, the error says which other checkpoint `option` may name.
template <typename Read>
auto or_advise(const fs::path& path, const char* option, Read read) {
    try {
        return read();
    } catch (const DataError& error) {
        ErrorInfo info = error.info();
        const std::string advice = advice_after_damage(path, option);
        info.hint = advice.empty() ? info.hint : advice;
        throw DataError(error.place(), info);
    } catch (const IoError& error) {
        const std::string advice = advice_after_damage(path, option);
        throw IoError(error.what() + (advice.empty() ? "" : "; " + advice));
    }
}

template <typename Value>
Value read_state(const fs::path& checkpoint, const char* key) {
    return or_advise(checkpoint, "--checkpoint", [&] {
        try {
            return nlohmann::json::parse(read_text(checkpoint / kStateFile)).value(key, Value());
        } catch (const nlohmann::json::exception& error) {
            refuse_state(checkpoint, error.what());
        }
    });
}

ModelFile read_evaluated(const fs::path& checkpoint) {
    return read_model_file(checkpoint / (fs::exists(checkpoint / kEmaFile) ? kEmaFile : kModelFile));
}

}  // namespace

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

void write_tensors(const fs::path& path, const std::vector<NamedTensor>& tensors, const ModelAbout& about) {
    std::vector<at::Tensor> on_host;  // keeps copies alive until they are written
    std::vector<NamedView> views;
    for (const auto& [name, tensor] : tensors) {
        on_host.push_back(tensor.detach().to(at::kCPU).contiguous());
        views.push_back({name, view_of(on_host.back())});
    }
    write_safetensors(path, views, about);
}

void write_checkpoint(const fs::path& folder, const Checkpoint& checkpoint) {
    write_tensors(folder / kModelFile, checkpoint.model, checkpoint.about);
    write_tensors(folder / kOptimizerFile, checkpoint.optimizer);
    if (!checkpoint.ema.empty()) {
        write_tensors(folder / kEmaFile, checkpoint.ema, checkpoint.about);
    }
    write_file(folder / kStateFile, checkpoint.state);
}

Checkpoint read_checkpoint(const fs::path& path) {
    return or_advise(path, "--resume", [&] { return read_whole(path); });
}

std::vector<std::string> read_classes(const fs::path& checkpoint) {
    return read_state<std::vector<std::string>>(checkpoint, "classes");
}

std::string read_trained_recipe(const fs::path& checkpoint) {
    return read_state<std::string>(checkpoint, "recipe");
}

ModelFile read_model(const fs::path& checkpoint) {
    return or_advise(checkpoint, "--checkpoint", [&] { return read_evaluated(checkpoint); });
}

ModelFile read_weights(const fs::path& path) {
    constexpr const char* kWanted = "a .safetensors file, a checkpoint or a run folder";
    std::error_code none;
    if (!fs::exists(path, none)) {
        throw IoError({.where = "model.weights",
                       .expected = kWanted,
                       .got = path.string() + ", which does not exist",
                       .hint = "paths are relative to the working directory"});
    }
    try {
        if (!fs::is_directory(path)) {
            return read_model_file(path);
        }
        if (const auto checkpoint = find_checkpoint(path)) {
            return read_evaluated(*checkpoint);
        }
    } catch (const DataError& error) {
        throw DataError({.path = "model.weights: " + error.place().path}, error.info());
    }
    throw IoError(
        {.where = "model.weights: " + path.string(), .expected = kWanted, .got = "a folder without a checkpoint"});
}

}  // namespace stoker
