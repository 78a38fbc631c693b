// A checkpoint that several ranks write at once, each its own elements, into the files that one rank would write.
#pragma once

#include <filesystem>
#include <string>

#include "stoker/dist/group.h"
#include "stoker/train/run/model_metadata.h"
#include "stoker/train/step/state_parts.h"

namespace stoker {

struct CheckpointParts {
    StateParts model;
    StateParts optimizer = {};
    StateParts ema = {};  // without tensors if nothing is averaged
    ModelMetadata metadata = {};
};

// Writes the files durably into a folder that exists; rank 0 names it and gives the text of state.json, others pass
// empty texts. False, with nothing written, if a rank does not find rank 0's files, since it has another file
// system, may not write them, or has other metadata. All ranks must call it. Throws IoError.
bool write_parts(const Group& group, const std::filesystem::path& folder, const CheckpointParts& parts,
                 const std::string& state);

}  // namespace stoker
