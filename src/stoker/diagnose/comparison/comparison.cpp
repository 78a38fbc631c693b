#include "stoker/diagnose/comparison/comparison.h"

#include <algorithm>
#include <array>

#include "stoker/diagnose/comparison/causes.h"
#include "stoker/diagnose/comparison/comparison_verdict.h"
#include "stoker/diagnose/comparison/measured_times.h"
#include "stoker/diagnose/diagnose.h"

namespace stoker {
namespace {

constexpr auto at(Phase phase) {
    return static_cast<std::size_t>(phase);
}

MeasuredSide measured(const RunRecords& records, const StepTimes& times, const Drawn& drawn) {
    return {.kind = records.kind,
            .judged = times.judged,
            .seconds_per_step = sum_of(drawn.mean),
            .samples_per_step = times.samples};
}

bool differ(double a, double b) {
    constexpr double kPart = 0.02;  // smaller last batches of epochs
    return std::abs(a - b) > kPart * std::max(a, b);
}

std::vector<PhaseChange> phase_changes(const Drawn& a, const Drawn& b) {
    std::vector<PhaseChange> changes;
    for (std::size_t i = 0; i < kPhases; ++i) {
        if (a.mean[i] > 0 || b.mean[i] > 0) {
            changes.push_back(
                {.phase = static_cast<Phase>(i), .a = a.mean[i], .b = b.mean[i], .change = difference_of(a, b, i)});
        }
    }
    return changes;
}

std::vector<StageChange> stage_changes(const RunSummary& a, const RunSummary& b) {
    const auto of_a = stage_times(a);
    const auto of_b = stage_times(b);
    std::vector<StageChange> changes;
    for (std::size_t i = 0; of_a && of_b && i < kStages; ++i) {
        if ((*of_a)[i] > 0 || (*of_b)[i] > 0) {
            changes.push_back({.stage = static_cast<Stage>(i), .a = (*of_a)[i], .b = (*of_b)[i]});
        }
    }
    return changes;
}

// `parts` become those of the values that changed in the direction `sign`.
template <std::size_t kCount>
double normalize(std::array<double, kCount>& parts, double sign) {
    double sum = 0;
    for (double& part : parts) {
        part = std::max(0.0, sign * part);
        sum += part;
    }
    for (double& part : parts) {
        part = sum > 0 ? part / sum : 0;
    }
    return sum;
}

ChangeShape shape_of(const Comparison& comparison) {
    constexpr double kStagesChange = 0.2;  // of the workers' time for a sample
    ChangeShape shape{.slower = comparison.ratio.expected >= 1};
    const double sign = shape.slower ? 1 : -1;
    for (const PhaseChange& change : comparison.phases) {
        shape.parts[at(change.phase)] = change.b - change.a;
    }
    shape.whole = normalize(shape.parts, sign);
    double work = 0;
    for (const StageChange& change : comparison.stages) {
        if (change.stage != Stage::blocked) {
            shape.stage_parts[static_cast<std::size_t>(change.stage)] = change.b - change.a;
            work += std::min(change.a, change.b);
        }
    }
    shape.stages_known = !comparison.stages.empty();
    shape.stages_changed = normalize(shape.stage_parts, sign) > kStagesChange * work && shape.stages_known;
    for (const Finding& finding : shape.slower ? comparison.new_findings : comparison.gone_findings) {
        shape.rules.push_back(finding.rule);
    }
    return shape;
}

std::vector<Finding> findings_only_in(const Diagnosis& one, const Diagnosis& other) {
    const auto fires = [](const Diagnosis& diagnosis, const std::string& rule) {
        return std::ranges::any_of(diagnosis.findings, [&](const Finding& finding) {
            return finding.rule == rule && finding.severity != Severity::info;
        });
    };
    std::vector<Finding> found;
    std::ranges::copy_if(one.findings, std::back_inserter(found), [&](const Finding& finding) {
        return finding.severity != Severity::info && !fires(other, finding.rule);
    });
    return found;
}

// `measured` is the ratio without the widening by others' load.
Outcome outcome_of(const Interval& measured, const Interval& ratio) {
    if (!ratio.known()) {
        return Outcome::unclear;
    }
    if (ratio.low > 1) {
        return Outcome::slower;
    }
    if (ratio.high < 1) {
        return Outcome::faster;
    }
    return measured.low > 1 || measured.high < 1 ? Outcome::unclear : Outcome::same;
}

}  // namespace

std::string_view outcome_name(Outcome outcome) {
    constexpr std::array<std::string_view, 4> kNames = {"same", "slower", "faster", "unclear"};
    return kNames[static_cast<std::size_t>(outcome)];
}

Comparison compare(const RunRecords& a, const RunRecords& b) {
    const RankRecords& rank_a = a.ranks.front();
    const RankRecords& rank_b = b.ranks.front();
    StepTimes times_a = step_times(rank_a);
    StepTimes times_b = step_times(rank_b);
    const std::vector<Phase> dropped = drop_what_one_lacks(times_a, times_b);
    join_passes_if_one_does(times_a, times_b);
    const RunSummary summary_a = summarize(rank_a);
    const RunSummary summary_b = summarize(rank_b);
    const Side side_a{.rank = rank_a, .summary = summary_a, .times = times_a};
    const Side side_b{.rank = rank_b, .summary = summary_b, .times = times_b};
    const Drawn drawn_a = drawn(times_a, 1);
    Drawn drawn_b = drawn(times_b, 2);

    Comparison out{.a = measured(a, times_a, drawn_a), .b = measured(b, times_b, drawn_b)};
    const Hidden hidden_a = hidden_of(side_a, drawn_a);
    const Hidden hidden_b = hidden_of(side_b, drawn_b);
    const Interval measured_ratio = between_runs(log_ratio_of(drawn_a, drawn_b), hidden_a, hidden_b);
    out.step_ratio = with_load(measured_ratio, hidden_a, hidden_b);
    double samples = 1;  // of A for one of B
    if (times_a.samples && times_b.samples) {
        samples = *times_a.samples / *times_b.samples;
        out.per_sample = differ(*times_a.samples, *times_b.samples);
        out.sample_ratio =
            Interval{samples * out.step_ratio.low, samples * out.step_ratio.expected, samples * out.step_ratio.high};
    }
    const double factor = out.per_sample ? samples : 1;
    scale(drawn_b, factor);
    out.ratio = out.per_sample ? *out.sample_ratio : out.step_ratio;
    out.outcome =
        outcome_of({factor * measured_ratio.low, out.ratio.expected, factor * measured_ratio.high}, out.ratio);
    out.phases = phase_changes(drawn_a, drawn_b);
    out.stages = stage_changes(summary_a, summary_b);
    const Diagnosis diagnosis_a = diagnose(a);
    const Diagnosis diagnosis_b = diagnose(b);
    out.new_findings = findings_only_in(diagnosis_b, diagnosis_a);
    out.gone_findings = findings_only_in(diagnosis_a, diagnosis_b);

    std::vector<Difference> differences = differing_facts(a, b);
    std::ranges::move(differing_figures(side_a, side_b), std::back_inserter(differences));
    const ChangeShape shape = shape_of(out);
    out.differences = ranked(std::move(differences), shape);
    const bool changed = out.outcome != Outcome::same && out.ratio.known();
    out.causes = changed ? causes_of(out.differences, shape) : std::vector<std::size_t>{};
    if (out.outcome == Outcome::unclear) {  // under such a load every figure differs
        std::erase_if(out.causes, [&](std::size_t cause) {
            const Difference& difference = out.differences[cause].difference;
            return difference.observed && !difference.key.starts_with("load.");
        });
    }
    out.notes = comparison_notes({.a = a,
                                  .b = b,
                                  .dropped = dropped,
                                  .drift_a = hidden_a.drift,
                                  .drift_b = hidden_b.drift,
                                  .taken_a = hidden_a.taken,
                                  .taken_b = hidden_b.taken});
    out.verdict = comparison_verdict(out);
    return out;
}

bool fails(const Comparison& comparison, double fail_above) {
    return comparison.ratio.known() && comparison.ratio.low - 1 > fail_above;
}

}  // namespace stoker
