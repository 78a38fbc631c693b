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
inline constexpr const char* kBest = "best";                // that of its best epoch (train.keep_best)

struct Checkpoint {
    std::vector<NamedTensor> model;
    std::vector<NamedTensor> optimizer;
    std::vector<NamedTensor> ema;  // the averaged weights; empty where there are none
    std::string state = {};        // a JSON object, with at least "step"
    ModelMetadata metadata = {};   // of model and ema
};

// Weights with the metadata of their file.
struct ModelFile {
    std::vector<NamedTensor> tensors;
    ModelMetadata metadata = {};
    std::string path = "model weights";
};

// The complete checkpoints in a folder with their steps, oldest first.
std::vector<std::pair<std::int64_t, std::filesystem::path>> checkpoints_in(const std::filesystem::path& folder);

// The newest complete checkpoint of a run folder or of its folder `checkpoints`, or `path` itself where that is one.
// Empty where there is none.
std::optional<std::filesystem::path> find_checkpoint(const std::filesystem::path& path);

// Throws IoError or DataError for a folder that is not a checkpoint, or is damaged. The message then names the newest
// older checkpoint of the run that can be read.
Checkpoint read_checkpoint(const std::filesystem::path& path);

// Why a checkpoint is damaged: a file that is missing, cut short or of another hash. Empty for a whole one, and where a
// file cannot be read for another reason. Reads all of it.
std::string damage_of(const std::filesystem::path& checkpoint);

// Writes the files of a checkpoint durably into an existing folder. state.json gets the hashes of the other files and
// of itself, and every reader compares them. Throws IoError, and InvalidArgument for a state without a step.
void write_checkpoint(const std::filesystem::path& folder, const Checkpoint& checkpoint);

// Writes tensors durably as safetensors and returns the hash of the file's bytes. Throws IoError.
std::uint64_t write_tensors(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors,
                            const ModelMetadata& metadata = {});

// The message of an exception of the JSON library, without the library's error number.
std::string json_reason(const std::exception& error);

// The names of the classes that the checkpoint was trained on, by label. Empty where state.json has none, as for
// the recipe and the hash below. All throw IoError and DataError.
std::vector<std::string> read_classes(const std::filesystem::path& checkpoint);

// The step that it was written after.
std::int64_t read_step(const std::filesystem::path& checkpoint);

// The recipe (TOML) that it was trained with.
std::string read_trained_recipe(const std::filesystem::path& checkpoint);

// The hash of the file of model.script or model.export (models/imported_model.h) that it was trained with.
std::string read_model_hash(const std::filesystem::path& checkpoint);

// The weights to evaluate: the averaged weights where there are any, else model.safetensors.
ModelFile read_model(const std::filesystem::path& checkpoint);

// The same for model.weights: `path` is a .safetensors file, a state_dict that torch.save wrote, a checkpoint, or a run
// folder, whose newest checkpoint is read. Throws IoError where it is none of these; DataError for a damaged file and
// Unsupported for what PtStateDict cannot read, both naming model.weights.
ModelFile read_weights(const std::filesystem::path& path);

}  // namespace stoker
