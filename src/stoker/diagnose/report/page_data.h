// The JSON document that the page's script reads: everything is thinned, summed or worded.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "stoker/diagnose/report/html_report.h"

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
nlohmann::ordered_json functions_data(const Report& report);

// Foreign text to show: one line, with control characters and those that change the order of the text around
// them as \u202e, and cut to `most` bytes (more or less), at a whole character, with an ellipsis.
inline constexpr std::size_t kMostNameBytes = 400;
std::string shown_text(std::string_view text, std::size_t most = kMostNameBytes);

// JSON that can stand between <script> tags: ASCII, and no '<'.
std::string script_json(const nlohmann::ordered_json& json);

}  // namespace stoker
