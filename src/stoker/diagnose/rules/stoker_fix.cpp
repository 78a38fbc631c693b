// A table: rule -> what to do. Rules that are not in it have a command of Stoker, or say all in their own.
#include "stoker/diagnose/rules/stoker_fix.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <string>
#include <string_view>

namespace stoker {
namespace {

struct ChangeOfRule {
    std::string_view rule;
    std::string (*code)(const RankRecords& rank);
};

// In a trace alone, which says nothing about the workers.
std::string profile_folder(const RankRecords&) {
    return "stoker diagnose PROFILE  # the folder that stoker profile wrote, above trace/, says what the workers do";
}

// The step is eager although the recipe would capture it: it says why.
std::string eager(const RankRecords& rank) {
    const std::string& compiled = rank.facts.train.compiled;
    return compiled.starts_with("eager")
               ? fmt::format("mend why the step is not captured ({}), or a larger batch", compiled)
               : "a larger data.batch_size, with another learning rate";
}

std::string syncs(const RankRecords&) {
    return "in the model, the loss and the metrics: no item(), no copy to the host, no size that depends on values";
}

std::string copies(const RankRecords&) {
    return "stoker doctor  # the PCIe link's width and generation; else fewer or smaller fields in a batch";
}

std::string search(const RankRecords&) {
    return "a fixed size in data.train_ops, such as a crop: cuDNN searches once for each size";
}

std::string nccl(const RankRecords&) {
    return "stoker doctor  # looks for NCCL; training says at its start why it is not used";
}

constexpr std::array kChanges = {
    ChangeOfRule{"launch-bound", eager},         ChangeOfRule{"sync-points", syncs},
    ChangeOfRule{"pageable-copy", copies},       ChangeOfRule{"copy-not-overlapped", copies},
    ChangeOfRule{"cudnn-search", search},        ChangeOfRule{"gloo-on-gpu", nccl},
    ChangeOfRule{"input-bound", profile_folder},
};

}  // namespace

void advise_without_key(Finding& finding, const RankRecords& rank, bool knows_recipe) {
    const auto row = std::ranges::find(kChanges, finding.rule, &ChangeOfRule::rule);
    if (row != kChanges.end() && (finding.fix.recipe.empty() || !knows_recipe)) {
        finding.fix = {.recipe = {}, .code = row->code(rank)};
    }
}

}  // namespace stoker
