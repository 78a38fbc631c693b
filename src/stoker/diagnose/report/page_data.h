// What the page's script reads: a JSON document with everything thinned, summed and, where it is text, worded.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "stoker/diagnose/report/report.h"

namespace stoker {

// The document; docs of its fields are where they are made.
nlohmann::ordered_json page_data(const Report& report);

// A rank's account, workers, queue and evaluations, with at most `most_bars` bars.
nlohmann::ordered_json rank_data(const RankRecords& rank, std::size_t most_bars);

// The charts that a profile adds. null where there is nothing to draw.
nlohmann::ordered_json timeline_data(const Report& report);
nlohmann::ordered_json flame_data(const Report& report);
nlohmann::ordered_json memory_data(const Report& report);
nlohmann::ordered_json operators_data(const Report& report);

// `text` cut to `most` bytes, at a whole character, with an ellipsis.
std::string clipped_text(std::string_view text, std::size_t most);
inline constexpr std::size_t kMostNameBytes = 400;

// JSON that can stand between <script> tags: ASCII, and no '<'.
std::string script_json(const nlohmann::ordered_json& json);

}  // namespace stoker
