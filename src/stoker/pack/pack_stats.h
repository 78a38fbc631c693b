// PackStats as JSON: stored with each part and in the record of a finished data set.
#pragma once

#include <nlohmann/json.hpp>

#include "stoker/pack/pack.h"

namespace stoker {

void add_stats(PackStats& sum, const PackStats& other);

nlohmann::ordered_json to_json(const PackStats& stats);
// Throws DataError for another document.
PackStats pack_stats_from_json(const nlohmann::ordered_json& json);

}  // namespace stoker
