// The plan of a packing: the identity of the source and the options, which together determine every byte of the result.
// It is stored with the data set; a packing is resumed, or skipped as complete, only if its plan is the same.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "stoker/pack/pack.h"

namespace stoker {

// `shards`: the target consists of several files, so the plan includes their size.
nlohmann::ordered_json plan_of(const Dataset& dataset, const PackOptions& options, bool shards);

// Throws InvalidArgument if the plan in `origin`, a JSON text, differs from `wanted`. The message names the different
// command-line options. `done`: "begun" or "packed", the state of the data set.
void check_plan(const std::string& directory, const std::string& origin, const nlohmann::ordered_json& wanted,
                const std::string& done, const std::string& hint);

// PackStats as JSON: stored with each part and in the record of a finished data set.
void add_stats(PackStats& sum, const PackStats& other);

nlohmann::ordered_json to_json(const PackStats& stats);
// Throws DataError for another document.
PackStats pack_stats_from_json(const nlohmann::ordered_json& json);

}  // namespace stoker
