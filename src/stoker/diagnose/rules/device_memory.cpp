// The GPU's memory is nearly full, or could hold a larger batch.
#include <algorithm>
#include <array>
#include <fmt/format.h>

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

void less_device_memory(const JudgedRun& records, const RankRecords& rank, Finding& finding) {
    const auto set = records.recipe.find("train.gradient_checkpointing");
    const bool recomputes = set != records.recipe.end() && set->second == "true";
    if (has_blocks(rank) && !recomputes) {
        finding.text +=
            "Recompute activations (gradient checkpointing), or train in mixed precision or in smaller parts of a "
            "batch.";
        finding.fix = {.recipe = {{"train.gradient_checkpointing", "true"}},
                       .code = "torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)"};
        return;
    }
    const int accumulate = std::clamp(rank.facts.train.accumulate.value_or(1), 1, 1 << 20);
    finding.text += "Train in mixed precision or in smaller parts of a batch.";
    finding.fix = {.recipe = {{"train.accumulate", fmt::to_string(2 * accumulate)}},
                   .code = "for part in x.chunk(2): (loss(model(part)) / 2).backward()"};
}

std::vector<Finding> memory_headroom(const JudgedRun& records) {
    return for_gpus(
        records, [&records](const RankRecords& rank, const RunSummary& run, std::vector<Finding>& findings) {
            std::int64_t peak = 0;
            for (const IntervalEntry& interval : rank.intervals) {
                peak = std::max(peak, interval.device_bytes.value_or(0));
            }
            const auto memory = static_cast<double>(rank.facts.device.memory_bytes.value_or(0));
            if (peak == 0 || memory <= 0) {
                return;
            }
            constexpr double kFull = 0.92;
            constexpr double kVeryFull = 0.97;
            constexpr double kUnused = 0.5;
            const double used = static_cast<double>(peak) / memory;
            if (used < kFull && used >= kUnused) {
                return;
            }
            const bool full = used >= kFull;
            Finding finding = finding_of("memory-headroom",
                                         used >= kVeryFull ? Severity::critical
                                         : full            ? Severity::warn
                                                           : Severity::info,
                                         rank, run);
            finding.evidence = {{"memory_share", used}, {"peak_bytes", static_cast<double>(peak)}};
            finding.confidence = 0.6;
            if (full) {
                finding.text = fmt::format(
                    "{:.0f} % of the GPU's memory was in use: a slightly larger batch ends the run. ", 100 * used);
                less_device_memory(records, rank, finding);
            } else {
                const double idle = lost_to_launches(rank, run);
                finding.text = fmt::format(
                    "{:.0f} % of the GPU's memory is unused: a larger batch fits, with another learning rate.",
                    100 * (1 - used));
                finding.fix = double_batch(rank);
                finding.gain = gain_of_share(idle / 2, 0);
            }
            findings.push_back(finding);
        });
}

}  // namespace

std::span<const Rule> device_memory_rules() {
    static constexpr std::array kRules = {
        Rule{"memory-headroom", "more than 92 % of the GPU's memory is in use (critical from 97 %), or less than 50 %",
             "checkpointing or mixed precision; or a larger batch", memory_headroom},
    };
    return kRules;
}

}  // namespace stoker
