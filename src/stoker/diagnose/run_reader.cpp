#include "stoker/diagnose/run_reader.h"

#include <fmt/format.h>

#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/trace/records_json.h"
#include "stoker/track/line_file.h"
#include "stoker/track/recipe_keys.h"
#include "stoker/track/run_record.h"

namespace stoker {
namespace {

// A run that was killed and resumed may have written a step twice; the later line counts.
void drop_repeated(RankRecords& rank) {
    std::vector<StepEntry> kept;
    for (StepEntry& step : rank.steps) {
        while (!kept.empty() && kept.back().step >= step.step) {
            kept.pop_back();
        }
        kept.push_back(std::move(step));
    }
    rank.steps = std::move(kept);
}

}  // namespace

RunRecords read_run_records(const std::filesystem::path& run) {
    RunRecords records;
    const std::filesystem::path metrics = run / kMetricsFile;
    std::string problem;
    const std::string rest = for_each_line(metrics, [&](std::string_view line, std::uint64_t offset) {
        if (!problem.empty()) {
            return;
        }
        if (const std::string error = add_record(line, records); !error.empty()) {
            problem = fmt::format("{}: byte {}: {}; the records before it were read", metrics.string(), offset, error);
        }
    });
    if (problem.empty() && !rest.empty() && !add_record(rest, records).empty()) {
        problem = fmt::format("{}: the last line is incomplete, as a killed run leaves it", metrics.string());
    }
    if (!problem.empty()) {
        records.problems.push_back(problem);
    }
    if (records.ranks.empty()) {
        records.ranks.emplace_back();
    }
    for (RankRecords& rank : records.ranks) {
        drop_repeated(rank);
    }
    try {
        records.recipe = recipe_keys(read_text(run / kRecipeFile), kRecipeFile);
    } catch (const Error& error) {
        records.problems.emplace_back(error.what());
    }
    return records;
}

}  // namespace stoker
