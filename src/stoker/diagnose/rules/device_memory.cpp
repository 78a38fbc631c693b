// The GPU's memory is nearly full, or could hold a larger batch.
#include <algorithm>
#include <array>

#include "stoker/diagnose/rules/lost_time.h"
#include "stoker/diagnose/rules/rule_families.h"
#include "stoker/diagnose/rules/run_summary.h"

namespace stoker {
namespace {

// Blocks whose activations can be computed again: of a program's own model they are assumed.
bool has_blocks(const RankRecords& rank) {
    const std::string& model = rank.facts.train.model;
    const bool file = model.find_first_of("./") != std::string::npos;
    return in_python(rank) || model.empty() ||
           (!file && (model == "convnet" || model.starts_with("resnet") || model.starts_with("vit")));
}

bool can_recompute(const RunView& records, const RankRecords& rank) {
    return has_blocks(rank) && !records.sets("train.gradient_checkpointing", "true");
}

std::optional<Finding> memory_headroom(const RunView& records, const RankRecords& rank, const RunSummary& run) {
    std::int64_t peak = 0;
    for (const IntervalEntry& interval : rank.intervals) {
        peak = std::max(peak, interval.device_bytes.value_or(0));
    }
    const auto memory = static_cast<double>(rank.facts.device.memory_bytes.value_or(0));
    if (peak == 0 || memory <= 0) {
        return std::nullopt;
    }
    constexpr double kFull = 0.92;
    constexpr double kVeryFull = 0.97;
    constexpr double kUnused = 0.5;
    const double used = static_cast<double>(peak) / memory;
    if (used < kFull && used >= kUnused) {
        return std::nullopt;
    }
    const bool full = used >= kFull;
    Finding finding{.severity = used >= kVeryFull ? Severity::critical : full ? Severity::warn : Severity::info};
    finding.evidence = {{"memory_share", used}, {"peak_bytes", static_cast<double>(peak)}};
    finding.confidence = 0.6;
    finding.variant = !full ? "unused" : can_recompute(records, rank) ? "recompute" : "full";
    if (!full) {
        finding.gain = gain_of_share(lost_to_launches(rank, run) / 2, 0);
    }
    return finding;
}

}  // namespace

std::span<const Rule> device_memory_rules() {
    static constexpr std::array kRules = {
        Rule{"memory-headroom", "more than 92 % of the GPU's memory is in use (critical from 97 %), or less than 50 %",
             "checkpointing or mixed precision; or a larger batch", memory_headroom, Needs::gpu},
    };
    return kRules;
}

}  // namespace stoker
