#include "stoker/diagnose/comparison/causes.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

namespace stoker {
namespace {

// The part of the wait's change that a fact may claim. A fact that acts through stages claims what they changed; one
// that does not, such as the number of workers, claims little where a stage became slow.
double part_of_wait(const FactRow& row, const ChangeShape& shape) {
    constexpr double kBesideStages = 0.3;
    constexpr double kStagesUnknown = 0.7;
    constexpr double kStagesAlike = 0.2;
    if (row.stages == kAnyStage) {
        return 1;
    }
    if (row.stages == StageSet{}) {
        return shape.stages_changed ? kBesideStages : 1;
    }
    if (!shape.stages_known) {
        return kStagesUnknown;
    }
    double part = 0;
    for (std::size_t i = 0; i < kStages; ++i) {
        part += row.stages.has(static_cast<Stage>(i)) ? shape.stage_parts[i] : 0;
    }
    return shape.stages_changed ? part : kStagesAlike;
}

// Without the phases that `covered` has.
double explained_by(const Difference& difference, const ChangeShape& shape, PhaseSet covered) {
    const FactRow& row = *difference.row;
    double sum = 0;
    for (std::size_t i = 0; i < kPhases; ++i) {
        const auto phase = static_cast<Phase>(i);
        if (row.phases.has(phase) && !covered.has(phase)) {
            sum += shape.parts[i] * (phase == Phase::wait ? part_of_wait(row, shape) : 1);
        }
    }
    const double most = difference.seconds && shape.whole > 0 ? std::abs(*difference.seconds) / shape.whole : 1;
    return std::min(sum, most);
}

// A number that changed the other way explains little, and a small change less than a large one.
double fit_of(const Difference& difference, bool slower) {
    constexpr double kOtherWay = 0.25;
    if (!difference.is_number || difference.row->slower_with == SlowerWith::any) {
        return 1;
    }
    const bool grew = difference.growth > 0;
    const bool fits = (difference.row->slower_with == SlowerWith::more) == (grew == slower);
    return fits ? 0.5 + std::min(0.5, std::abs(difference.growth)) : kOtherWay;
}

bool names_one_of(std::string_view rules, const std::vector<std::string>& changed) {
    return std::ranges::any_of(changed, [&](const std::string& rule) {
        const std::size_t at = rules.find(rule);
        const std::size_t end = at + rule.size();
        return at != std::string_view::npos && (at == 0 || rules[at - 1] == ' ') &&
               (end == rules.size() || rules[end] == ' ');
    });
}

double score_of(const RankedDifference& ranked, const ChangeShape& shape) {
    constexpr double kBreadth = 0.04;  // a fact that changes one phase alone says more than one that changes all
    constexpr double kRule = 1.3;
    const FactRow& row = *ranked.difference.row;
    const double narrow = 1 / (1 + kBreadth * (row.phases.size() - 1));
    return row.weight * ranked.explained * narrow * fit_of(ranked.difference, shape.slower) *
           (names_one_of(row.rules, shape.rules) ? kRule : 1);
}

}  // namespace

std::vector<RankedDifference> ranked(std::vector<Difference> differences, const ChangeShape& shape) {
    std::vector<RankedDifference> out;
    for (Difference& difference : differences) {
        RankedDifference& entry = out.emplace_back(RankedDifference{.difference = std::move(difference)});
        entry.explained = explained_by(entry.difference, shape, {});
        entry.score = score_of(entry, shape);
    }
    std::ranges::stable_sort(out, [](const RankedDifference& a, const RankedDifference& b) {
        return std::pair(a.score, a.difference.row->weight) > std::pair(b.score, b.difference.row->weight);
    });
    return out;
}

std::vector<std::size_t> causes_of(std::span<const RankedDifference> ranked, const ChangeShape& shape) {
    constexpr std::size_t kMost = 3;
    constexpr double kWorthNaming = 0.2;  // of the change, that no cause before explains
    std::vector<std::size_t> causes;
    PhaseSet covered = {};
    for (std::size_t i = 0; i < ranked.size() && causes.size() < kMost; ++i) {
        const FactRow& row = *ranked[i].difference.row;
        if (ranked[i].score >= kLeastCause && explained_by(ranked[i].difference, shape, covered) >= kWorthNaming) {
            causes.push_back(i);
            covered = covered | row.phases;
        }
    }
    return causes;
}

}  // namespace stoker
