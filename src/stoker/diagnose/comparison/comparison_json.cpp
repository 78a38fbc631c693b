// The document of a comparison. Times are in seconds, those of the workers' stages in microseconds.
#include <cmath>
#include <nlohmann/json.hpp>

#include "stoker/base/json_depth.h"
#include "stoker/diagnose/comparison/comparison.h"

namespace stoker {
namespace {

using Json = nlohmann::ordered_json;

Json number(double value) {
    return std::isfinite(value) ? Json(value) : Json(nullptr);
}

Json json_of(const Interval& interval) {
    return {{"low", number(interval.low)}, {"expected", number(interval.expected)}, {"high", number(interval.high)}};
}

Json json_of(const MeasuredSide& side) {
    const bool known = side.samples_per_step.value_or(0) > 0;
    return {{"kind", side.kind},
            {"steps", side.judged.steps},
            {"judged_steps", {side.judged.first_step, side.judged.last_step}},
            {"seconds_per_step", side.seconds_per_step},
            {"samples_per_step", known ? Json(*side.samples_per_step) : Json(nullptr)},
            {"seconds_per_sample", known ? number(side.seconds_per_step / *side.samples_per_step) : Json(nullptr)}};
}

Json text_or_null(const std::string& text) {
    return text.empty() ? Json(nullptr) : Json(text);
}

Json json_of(const RankedDifference& ranked) {
    Json phases = Json::array();
    for (std::size_t i = 0; i < kPhases; ++i) {
        if (const auto phase = static_cast<Phase>(i); ranked.difference.row->phases.has(phase)) {
            phases.push_back(phase_name(phase));
        }
    }
    return {{"key", ranked.difference.key},           {"name", ranked.difference.name},
            {"a", text_or_null(ranked.difference.a)}, {"b", text_or_null(ranked.difference.b)},
            {"measured", ranked.difference.observed}, {"phases", phases},
            {"explained", ranked.explained},          {"score", ranked.score}};
}

Json json_of(const std::vector<Finding>& findings) {
    Json list = Json::array();
    for (const Finding& finding : findings) {
        list.push_back({{"rule", finding.rule}, {"severity", severity_name(finding.severity)}, {"text", finding.text}});
    }
    return list;
}

}  // namespace

std::string to_json(const Comparison& comparison, std::optional<double> fail_above) {
    Json phases = Json::array();
    for (const PhaseChange& change : comparison.phases) {
        phases.push_back({{"phase", phase_name(change.phase)},
                          {"a", change.a},
                          {"b", change.b},
                          {"change", json_of(change.change)}});
    }
    Json stages = Json::array();
    for (const StageChange& change : comparison.stages) {
        stages.push_back({{"stage", stage_name(change.stage)}, {"a_us", change.a}, {"b_us", change.b}});
    }
    Json differences = Json::array();
    for (const RankedDifference& ranked : comparison.differences) {
        differences.push_back(json_of(ranked));
    }
    Json causes = Json::array();
    for (const std::size_t cause : comparison.causes) {
        causes.push_back(comparison.differences[cause].difference.key);
    }
    const Json document = {
        {"kind", "comparison"},
        {"verdict", {{"outcome", outcome_name(comparison.outcome)}, {"text", comparison.verdict}}},
        {"unit", comparison.per_sample ? "sample" : "step"},
        {"ratio", json_of(comparison.ratio)},
        {"step_ratio", json_of(comparison.step_ratio)},
        {"sample_ratio", comparison.sample_ratio ? json_of(*comparison.sample_ratio) : Json(nullptr)},
        {"fail_above", fail_above ? Json(*fail_above) : Json(nullptr)},
        {"failed", fail_above && fails(comparison, *fail_above)},
        {"a", json_of(comparison.a)},
        {"b", json_of(comparison.b)},
        {"phases", phases},
        {"stages", stages},
        {"causes", causes},
        {"differences", differences},
        {"rules", {{"new", json_of(comparison.new_findings)}, {"gone", json_of(comparison.gone_findings)}}},
        {"notes", comparison.notes}};
    return json_text(document, 2);
}

}  // namespace stoker
