// A checkpoint: the files of the folder checkpoints/<step>/ of a run, found, read and written.
#pragma once

#include <cstdint>
#include <exception>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "stoker/models/model.h"
#include "stoker/train/run/model_metadata.h"

namespace stoker {

inline constexpr const char* kCheckpoints = "checkpoints";  // the folder of a run that holds them

struct Checkpoint {
    std::vector<NamedTensor> model;
    std::vector<NamedTensor> optimizer;
    std::vector<NamedTensor> ema;  // the averaged weights; empty where there are none
    std::string state;             // JSON
    ModelMetadata about = {};      // of both files of weights
};

// Weights with what their file says of them.
struct ModelFile {
    std::vector<NamedTensor> tensors;
    ModelMetadata about = {};
    std::string path = "model weights";
};

// The complete ones of a folder of checkpoints by step, oldest first.
std::vector<std::pair<std::int64_t, std::filesystem::path>> checkpoints_in(const std::filesystem::path& folder);

// The newest complete checkpoint of a run folder or of its folder `checkpoints`, or `path` itself where that is one.
// Empty where there is none.
std::optional<std::filesystem::path> find_checkpoint(const std::filesystem::path& path);

// Throws IoError or DataError for a folder that is no checkpoint, or a damaged one; then it names the next older one of
// the same run that can be read.
Checkpoint read_checkpoint(const std::filesystem::path& path);

// Writes the files of a checkpoint into a folder that is there, durably; state.json gets the hashes of the others, by
// which all that read them know them again. Throws IoError.
void write_checkpoint(const std::filesystem::path& folder, const Checkpoint& checkpoint);

// Writes tensors as safetensors, durably, and gives the hash of the file's bytes. Throws IoError.
std::uint64_t write_tensors(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors,
                            const ModelMetadata& about = {});

// What the JSON library says of a state.json of another shape, without the library's number for it.
std::string json_reason(const std::exception& error);

// The names of the classes that it was trained on, by label; empty where it does not tell. Throws IoError and
// DataError.
std::vector<std::string> read_classes(const std::filesystem::path& checkpoint);

// The recipe (TOML) that it was trained by; empty where it does not tell. Throws IoError and DataError.
std::string read_trained_recipe(const std::filesystem::path& checkpoint);

// The hash of the file of a model of one's own (models/own_model.h) that it was trained with; empty where there was
// none, or it does not tell. Throws IoError and DataError.
std::string read_model_hash(const std::filesystem::path& checkpoint);

// What is evaluated: the averaged weights where there are any, else model.safetensors.
ModelFile read_model(const std::filesystem::path& checkpoint);

// The same for model.weights: `path` itself, a .safetensors file, or the newest checkpoint of a run folder. Throws
// IoError where there is none of these, and DataError for a damaged file, naming the key beside it.
ModelFile read_weights(const std::filesystem::path& path);

}  // namespace stoker
