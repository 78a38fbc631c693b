// What decides every byte of a packed data set: its dataset and the options. It lies in the manifest, so that a
// packing goes on, or has nothing to do, only where it would give the same.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "stoker/pack/pack.h"

namespace stoker {

// `shards`: the target has several files, whose size is part of the plan.
nlohmann::ordered_json plan_of(const Dataset& dataset, const PackOptions& options, bool shards);

// Throws InvalidArgument that says, as the command line does, where the plan in `origin` (a manifest's) differs from
// `wanted`. `done`: "begun" or "packed", what was done with the plan.
void check_plan(const std::string& directory, const std::string& origin, const nlohmann::ordered_json& wanted,
                const std::string& done, const std::string& hint);

}  // namespace stoker
