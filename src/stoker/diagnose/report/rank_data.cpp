// One rank as the page draws it. Times are microseconds with one digit after the point.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "stoker/diagnose/judged_steps.h"
#include "stoker/diagnose/phase_sums.h"
#include "stoker/diagnose/report/facts.h"
#include "stoker/diagnose/report/page_data.h"
#include "stoker/diagnose/report/thin.h"

namespace stoker {
namespace {

using Json = nlohmann::ordered_json;

double us_of(std::chrono::nanoseconds time) {
    return std::round(static_cast<double>(time.count()) / 100) / 10;
}

// [[phase, tenths of a percent, microseconds], ...] without zeros, but with "unmeasured" always. The tenths sum to
// 1000.
Json shares_data(const PhaseTimes& times) {
    std::array<double, kPhases> values{};
    std::ranges::transform(times, values.begin(), us_of);
    const std::vector<int> tenths = tenths_of_percent(values);
    Json out = Json::array();
    for (std::size_t i = 0; i < kPhases; ++i) {
        if (values[i] > 0 || static_cast<Phase>(i) == Phase::unmeasured) {
            out.push_back({phase_name(static_cast<Phase>(i)), tenths[i], values[i]});
        }
    }
    return out;
}

// [[first, last, steps, peak, step of the peak, a sum for each phase of `phases`...], ...]
Json bars_data(const std::vector<StepBar>& bars, const std::vector<std::size_t>& phases) {
    Json out = Json::array();
    for (const StepBar& bar : bars) {
        Json row = {bar.first, bar.last, bar.count, us_of(bar.peak), bar.peak_step};
        for (const std::size_t phase : phases) {
            row.push_back(us_of(bar.times[phase]));
        }
        out.push_back(std::move(row));
    }
    return out;
}

// {"bars": [[first, last, mean, lowest], ...], "steps", "empty": steps that found no batch ready, "capacity"} or null.
Json queue_data(const RankRecords& rank, const std::vector<StepBar>& bars) {
    std::int64_t steps = 0;
    std::int64_t empty = 0;
    for (const StepEntry& step : rank.steps) {
        steps += step.ready.has_value() ? 1 : 0;
        empty += step.ready == 0 ? 1 : 0;
    }
    if (steps == 0) {
        return nullptr;
    }
    Json out = Json::array();
    for (const StepBar& bar : bars) {
        if (bar.ready_count > 0) {
            const double mean = static_cast<double>(bar.ready_sum) / static_cast<double>(bar.ready_count);
            out.push_back({bar.first, bar.last, std::round(mean * 100) / 100, *bar.ready_min});
        }
    }
    const auto& capacity = rank.facts.data.prefetch;
    return {
        {"bars", out}, {"steps", steps}, {"empty", empty}, {"capacity", capacity ? Json(*capacity) : Json(nullptr)}};
}

// {"stages": [[stage, tenths of a percent, microseconds], ...], "samples", "on_device": of them} or null.
Json workers_data(const StageTimes& sum) {
    std::array<double, kStages> values{};
    std::ranges::transform(sum.times, values.begin(), us_of);
    const std::vector<int> tenths = tenths_of_percent(values);
    if (std::ranges::all_of(values, [](double value) { return value <= 0; })) {
        return nullptr;
    }
    Json stages = Json::array();
    for (std::size_t i = 0; i < kStages; ++i) {
        if (values[i] > 0) {
            stages.push_back({stage_name(static_cast<Stage>(i)), tenths[i], values[i]});
        }
    }
    return {{"stages", stages}, {"samples", sum.samples}, {"on_device", sum.on_device}};
}

Json evaluations_data(const std::vector<EvaluationEntry>& evaluations) {
    if (evaluations.empty()) {
        return nullptr;
    }
    return {{"count", evaluations.size()}, {"shares", shares_data(sum_of_evaluations(evaluations).times)}};
}

Json gpu_data(const RankRecords& rank) {
    if (!rank.profile || !rank.profile->gpu || rank.profile->gpu->times.span_us() <= 0) {
        return nullptr;
    }
    const GpuTimes& gpu = rank.profile->gpu->times;
    const std::array<double, 3> parts = {gpu.compute_us, gpu.non_compute_us, gpu.idle_us};
    const std::vector<int> tenths = tenths_of_percent(parts);
    Json idle = Json::array();
    for (const GpuTimes::Idle& stream : gpu.idle) {
        idle.push_back({stream.stream, stream.host_wait_us, stream.kernel_wait_us, stream.other_us});
    }
    return {{"parts",
             {{"compute", tenths[0], gpu.compute_us},
              {"non-compute", tenths[1], gpu.non_compute_us},
              {"idle", tenths[2], gpu.idle_us}}},
            {"kernels", rank.profile->gpu->kernels},
            {"idle", idle}};
}

}  // namespace

Json rank_data(const RankRecords& rank, std::size_t most_bars) {
    const PhaseTimes host = sum_of_steps(rank.steps).times;
    const JudgedSteps judged = judged_steps(rank);
    StageTimes workers;
    for (const IntervalEntry& interval : rank.intervals) {
        workers += interval.workers.value_or(StageTimes{});
    }
    std::vector<std::size_t> phases;
    Json names = Json::array();
    for (std::size_t i = 0; i < kPhases; ++i) {
        if (host[i].count() > 0) {
            phases.push_back(i);
            names.push_back(phase_name(static_cast<Phase>(i)));
        }
    }
    const std::vector<StepBar> bars = step_bars(rank.steps, most_bars);
    const bool empty = rank.steps.empty();
    return {{"rank", rank.facts.rank},
            {"steps", rank.steps.size()},
            {"judged", {judged.first_step, judged.last_step, judged.steps}},
            {"median_us", std::round(judged.median_step * 1e7) / 10},
            {"phases", names},
            {"bars", bars_data(bars, phases)},
            {"shares", empty ? Json(nullptr) : shares_data(judged.account.times)},
            {"gpu", gpu_data(rank)},
            {"queue", queue_data(rank, bars)},
            {"workers", workers_data(workers)},
            {"evaluations", evaluations_data(rank.evaluations)}};
}

}  // namespace stoker
