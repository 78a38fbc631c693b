// Reads the records of a run folder: metrics.jsonl of all ranks, and recipe.toml.
#pragma once

#include <filesystem>

#include "stoker/records/records.h"

namespace stoker {

// Steps that a resumed run repeated count once. A damaged line ends the reading, and `problems` says so. Throws IoError
// without a metrics.jsonl.
RunRecords read_run_records(const std::filesystem::path& run);

}  // namespace stoker
