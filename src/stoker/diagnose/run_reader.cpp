#include "stoker/diagnose/run_reader.h"

#include <algorithm>
#include <fmt/format.h>
#include <limits>
#include <nlohmann/json.hpp>

#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/base/json_depth.h"
#include "stoker/records/line_file.h"
#include "stoker/records/records_json.h"
#include "stoker/track/recipe_keys.h"
#include "stoker/track/run_record.h"

namespace stoker {
namespace {

// Rank 0 writes its steps and the intervals of all ranks. The other ranks' steps are the means of these.
// Intervals that repeat steps, as a resumed run leaves them, add the steps behind the last one only. A damaged line can
// name any numbers: steps after `end` are left out, and false means that there are more than `room`.
bool add_mean_steps(RankRecords& rank, std::int64_t end, std::size_t room) {
    std::int64_t last = 0;
    for (const IntervalEntry& interval : rank.intervals) {
        if (interval.first_step < 1 || interval.last_step < interval.first_step) {
            continue;
        }
        const std::int64_t count = interval.last_step - (interval.first_step - 1);
        StepEntry mean;
        std::ranges::transform(interval.host.times, mean.host.times.begin(),
                               [&](std::chrono::nanoseconds time) { return time / count; });
        for (last = std::max(last, interval.first_step - 1); last < std::min(interval.last_step, end); ++last) {
            if (rank.steps.size() == room) {
                return false;
            }
            mean.step = last + 1;
            rank.steps.push_back(mean);
        }
    }
    return true;
}

void add_steps_of_other_ranks(RunRecords& records) {
    constexpr std::size_t kMost = 2'000'000;  // 500 MB
    std::size_t room = kMost;
    const std::vector<StepEntry>& own = records.ranks.front().steps;
    const std::int64_t end = own.empty() ? std::numeric_limits<std::int64_t>::max() : own.back().step;
    for (RankRecords& rank : records.ranks) {
        if (!rank.steps.empty()) {
            continue;
        }
        if (!add_mean_steps(rank, end, room)) {
            records.problems.push_back(fmt::format("rank {}: its intervals name too many steps; the first {} were read",
                                                   rank.facts.rank, rank.steps.size()));
        }
        room -= rank.steps.size();
    }
}

// The account of a run that has ended. A killed run has none; a resumed one may have that of an earlier step.
std::optional<StepRecord> read_total(const std::filesystem::path& run, std::int64_t last_step) {
    if (!is_file(run / kAccountFile)) {
        return std::nullopt;
    }
    const auto json = parse_json<nlohmann::json>(read_text(run / kAccountFile));
    const auto account = json.is_object() ? json.find("account") : json.end();
    if (account == json.end() || !account->is_object() || !account->value("seconds", nlohmann::json()).is_number()) {
        return std::nullopt;
    }
    const auto steps = json.find("steps");
    if (steps != json.end() && steps->is_number_integer() && steps->get<std::int64_t>() < last_step) {
        return std::nullopt;
    }
    StepRecord total;
    const double seconds = std::clamp(account->at("seconds").get<double>(), 0.0, 1e8);
    for (std::size_t i = 0; i < kPhases; ++i) {
        const auto share = account->find(phase_name(static_cast<Phase>(i)));
        if (share != account->end() && share->is_number()) {
            const double part = std::clamp(share->get<double>(), 0.0, 1.0) * seconds;
            total.times[i] = std::chrono::nanoseconds(static_cast<std::int64_t>(1e9 * part));
        }
    }
    return total;
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
    add_steps_of_other_ranks(records);
    RankRecords& own = records.ranks.front();
    own.total = read_total(run, own.steps.empty() ? 0 : own.steps.back().step);
    const bool has_recipe = records.ranks.front().facts.writer != kPythonWriter || is_file(run / kRecipeFile);
    try {
        records.recipe = has_recipe ? recipe_keys(read_text(run / kRecipeFile), kRecipeFile) : records.recipe;
    } catch (const Error& error) {
        records.problems.emplace_back(error.what());
    }
    return records;
}

}  // namespace stoker
