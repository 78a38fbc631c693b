#include "stoker/train/run/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <memory>
#include <nlohmann/json.hpp>

#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/base/json_depth.h"
#include "stoker/base/map_damage.h"
#include "stoker/base/self_hash.h"
#include "stoker/bridge/tensor.h"
#include "stoker/formats/arrays/pt_state_dict.h"
#include "stoker/formats/arrays/safetensors.h"
#include "stoker/io/zip.h"
#include "stoker/train/run/checkpoint_files.h"

namespace stoker {

using Json = nlohmann::ordered_json;

namespace {

namespace fs = std::filesystem;

// The tensors are views of the mapped file, so that ranks that take a part of them hold that part alone.
// `written`: what state.json says of the file's bytes; null: nothing.
ModelFile read_model_file(const fs::path& path, const Json* written = nullptr) {
    const auto file = std::make_shared<const SafetensorsFile>(path);
    if (written != nullptr && !is_as_written(file->bytes(), *written)) {
        throw DataError(
            {.path = path.string()},
            {.where = "checkpoint",
             .expected = "the file as it was written",
             .got = "another file: it is damaged, or was replaced (model.weights takes weights of your own)"});
    }
    ModelFile model{.tensors = {}, .metadata = file->metadata(), .path = path.string()};
    for (const auto& [name, view] : file->tensors()) {
        model.tensors.push_back({name, as_tensor(view, file)});
    }
    check_maps();
    return model;
}

// Whether the file is a zip file, as those of torch.save are.
bool is_torch_file(const fs::path& path) {
    return is_zip(MappedFile(path).bytes());
}

ModelFile read_torch_file(const fs::path& path) {
    const PtStateDict file(path);
    ModelFile model{.tensors = {}, .metadata = {}, .path = path.string()};
    for (const auto& [name, view] : file.tensors()) {
        model.tensors.push_back({name, copy_of(view)});
    }
    return model;
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

// Returns `use(json)` for the state.json of a checkpoint.
template <typename Use>
auto from_state(const fs::path& checkpoint, Use use) {
    const std::string text = read_text(checkpoint / kStateFile);
    const Json state = parse_json<Json>(text);
    if (state.is_discarded()) {
        refuse_state(checkpoint, "text that is not JSON, or is nested too deeply");
    }
    if (!self_hash_fits(text)) {
        refuse_state(checkpoint, "a damaged one: its hash differs");
    }
    try {
        if (const Json& step = state.at("step"); !step.is_number_unsigned()) {
            refuse_state(checkpoint,
                         fmt::format("a step of {}", step.is_number() ? json_text(step) : step.type_name()));
        }
        return use(state);
    } catch (const Json::exception& error) {
        refuse_state(checkpoint, json_reason(error));
    }
}

// Reads one of a checkpoint's files of tensors. A state.json without hashes is accepted.
ModelFile read_part(const fs::path& checkpoint, const Json& state, const char* name) {
    return read_model_file(checkpoint / name, state.contains(kFiles) ? &state.at(kFiles).at(name) : nullptr);
}

// A checkpoint without the step could not be read again.
void require_step(const std::string& state) {
    const Json json = parse_json<Json>(state);
    if (!json.is_object() || !json.contains("step") || !json["step"].is_number_unsigned()) {
        throw InvalidArgument({.where = "Checkpoint::state",
                               .expected = "a JSON object with the number of the step as \"step\"",
                               .got = state.empty() ? "nothing" : fmt::format("{:.60}", state)});
    }
}

bool has_averages(const fs::path& checkpoint, const Json& state) {
    return state.contains(kFiles) ? state.at(kFiles).contains(kEmaFile) : fs::exists(checkpoint / kEmaFile);
}

Checkpoint read_files(const fs::path& path) {
    return from_state(path, [&](const Json& state) -> Checkpoint {
        std::vector<NamedTensor> ema;
        if (has_averages(path, state)) {
            ema = read_part(path, state, kEmaFile).tensors;
        }
        return {.model = read_part(path, state, kModelFile).tensors,
                .optimizer = read_part(path, state, kOptimizerFile).tensors,
                .ema = std::move(ema),
                .state = json_text(state)};
    });
}

// Names the newest checkpoint before a damaged one that can be read; empty where there is none. It reads the
// candidates.
std::string advice_after_damage(const fs::path& damaged) {
    const fs::path path = (damaged / "").lexically_normal().parent_path();
    auto others = checkpoints_in(path.parent_path());
    const std::optional<std::int64_t> step = step_of(path);
    std::erase_if(others, [&](const auto& other) { return !step || other.first >= *step; });
    for (auto other = others.rbegin(); other != others.rend(); ++other) {
        try {
            read_files(other->second);
            return fmt::format("{}, the one before it, is whole", other->second.string());
        } catch (const Error&) {
            continue;  // also damaged
        }
    }
    return "";
}

// Returns `read()`. If that throws, the error gets the name of the newest checkpoint before it that is whole.
template <typename Read>
auto or_advise(const fs::path& path, Read read) {
    try {
        return read();
    } catch (const DataError& error) {
        ErrorInfo info = error.info();
        const std::string advice = advice_after_damage(path);
        info.hint = advice.empty() ? info.hint : advice;
        throw DataError(error.place(), info);
    } catch (const IoError& error) {
        const std::string advice = advice_after_damage(path);
        throw IoError(error.what() + (advice.empty() ? "" : "; " + advice));
    }
}

template <typename Value>
Value read_state(const fs::path& checkpoint, const char* pointer) {
    return or_advise(checkpoint, [&] {
        return from_state(checkpoint,
                          [&](const Json& state) { return state.value(Json::json_pointer(pointer), Value()); });
    });
}

ModelFile read_best_weights(const fs::path& checkpoint) {
    return from_state(checkpoint, [&](const Json& state) {
        return read_part(checkpoint, state, has_averages(checkpoint, state) ? kEmaFile : kModelFile);
    });
}

}  // namespace

std::string json_reason(const std::exception& error) {
    const std::string text = error.what();  // "[json.exception.type_error.302] type must be ..."
    const std::size_t number = text.find("] ");
    return number == std::string::npos ? text : text.substr(number + 2);
}

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
    if (found.empty() && fs::exists(path / kBest / kStateFile)) {
        return path / kBest;  // of a run that ended before its first other one
    }
    return found.empty() ? std::nullopt : std::optional(found.back().second);
}

std::uint64_t write_tensors(const fs::path& path, const std::vector<NamedTensor>& tensors,
                            const ModelMetadata& metadata) {
    std::vector<at::Tensor> on_host;  // keeps the copies alive until they are written
    std::vector<NamedView> views;
    for (const auto& [name, tensor] : tensors) {
        on_host.push_back(tensor.detach().to(at::kCPU).contiguous());
        views.push_back({name, view_of(on_host.back())});
    }
    return write_safetensors(path, views, metadata);
}

void write_checkpoint(const fs::path& folder, const Checkpoint& checkpoint) {
    require_step(checkpoint.state);
    Json files = Json::object();
    const auto write = [&](const char* name, const std::vector<NamedTensor>& tensors, const ModelMetadata& metadata) {
        files[name] = to_hex(write_tensors(folder / name, tensors, metadata));
    };
    write(kModelFile, checkpoint.model, checkpoint.metadata);
    write(kOptimizerFile, checkpoint.optimizer, {});
    if (!checkpoint.ema.empty()) {
        write(kEmaFile, checkpoint.ema, checkpoint.metadata);
    }
    write_state(folder, checkpoint.state, files);
}

Checkpoint read_checkpoint(const fs::path& path) {
    return or_advise(path, [&] { return read_files(path); });
}

std::string damage_of(const fs::path& checkpoint) {
    try {
        read_files(checkpoint);
        return "";
    } catch (const DataError& error) {
        return error.what();
    } catch (const IoError& error) {
        std::error_code none;
        const bool averages =
            from_state(checkpoint, [&](const Json& state) { return has_averages(checkpoint, state); });
        const bool missing = !fs::exists(checkpoint / kModelFile, none) ||
                             !fs::exists(checkpoint / kOptimizerFile, none) ||
                             (averages && !fs::exists(checkpoint / kEmaFile, none));
        return missing ? error.what() : "";
    }
}

std::vector<std::string> read_classes(const fs::path& checkpoint) {
    return read_state<std::vector<std::string>>(checkpoint, "/classes");
}

std::int64_t read_step(const fs::path& checkpoint) {
    return read_state<std::int64_t>(checkpoint, "/step");
}

std::string read_trained_recipe(const fs::path& checkpoint) {
    return read_state<std::string>(checkpoint, "/recipe");
}

std::string read_model_hash(const fs::path& checkpoint) {
    return read_state<std::string>(checkpoint, "/model_file/hash");
}

ModelFile read_model(const fs::path& checkpoint) {
    return or_advise(checkpoint, [&] { return read_best_weights(checkpoint); });
}

ModelFile read_weights(const fs::path& path) {
    constexpr const char* kWanted = "a .safetensors, .pt or .pth file, a checkpoint or a run folder";
    std::error_code none;
    if (!fs::exists(path, none)) {
        throw IoError({.where = "model.weights",
                       .expected = kWanted,
                       .got = path.string() + ", which does not exist",
                       .hint = path.has_extension() || path.has_parent_path()
                                   ? "paths are relative to the working directory"
                                   : "write one in Python: torch.save(torchvision.models.resnet18(weights=\"DEFAULT\")."
                                     "state_dict(), \"resnet18.pt\")"});
    }
    try {
        if (!fs::is_directory(path)) {
            return is_torch_file(path) ? read_torch_file(path) : read_model_file(path);
        }
        if (const auto checkpoint = find_checkpoint(path)) {
            return read_best_weights(*checkpoint);
        }
    } catch (const DataError& error) {
        throw DataError({.path = "model.weights: " + error.place().path}, error.info());
    } catch (const Unsupported& error) {  // its line begins with "[path]"
        throw Unsupported("[model.weights: " + std::string(error.what()).substr(1));
    }
    throw IoError(
        {.where = "model.weights: " + path.string(), .expected = kWanted, .got = "a folder without a checkpoint"});
}

}  // namespace stoker
