// Copies of batches to the GPU that it has to wait for.
#include "stoker/diagnose/rules/rule_families.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "stoker/diagnose/rules/lost_time.h"
#include "stoker/diagnose/rules/run_summary.h"

namespace stoker {
namespace {

constexpr double kPageableWarn = 0.02;  // of the time

const CopyEntry* copy_to_device(const RankRecords& rank, bool pageable) {
    if (!rank.profile) {
        return nullptr;
    }
    const auto found = std::ranges::find_if(
        rank.profile->copies, [&](const CopyEntry& copy) { return copy.kind == "HtoD" && copy.pageable == pageable; });
    return found == rank.profile->copies.end() ? nullptr : &*found;
}

// For a watched program, whose copies are not seen one by one: its loader pins nothing, and the host is in copies.
std::optional<Finding> pageable_copy_by_facts(const RankRecords& rank, const RunSummary& run) {
    constexpr double kWarn = 0.05;  // of the time: a copy also waits for the kernels before it
    const double share = run.of(Phase::copy);
    if (!in_python(rank) || rank.facts.data.pinned.value_or(true) || share < kWarn || !run.long_enough()) {
        return std::nullopt;
    }
    return Finding{.severity = severity_of_lost(share),
                   .evidence = {{"copy_share", share}},
                   .gain = gain_of_share(share, 0),
                   .confidence = 0.5,
                   .variant = "watched"};
}

std::optional<Finding> pageable_copy(const RunView&, const RankRecords& rank, const RunSummary& run) {
    if (!rank.profile) {
        return pageable_copy_by_facts(rank, run);
    }
    constexpr std::int64_t kBlocking = 64 << 10;  // smaller copies do not block the host
    const CopyEntry* copy = copy_to_device(rank, /*pageable=*/true);
    const double lost = lost_share(rank, run, Phase::copy);
    if (copy == nullptr || copy->bytes < kBlocking * copy->count || lost < kPageableWarn) {
        return std::nullopt;
    }
    return Finding{.severity = severity_of_lost(lost),
                   .evidence = {{"lost_share", lost},
                                {"copies", static_cast<double>(copy->count)},
                                {"copy_us", copy->us},
                                {"copy_bytes", static_cast<double>(copy->bytes)}},
                   .gain = gain_of_share(lost, 0.5),
                   .confidence = 0.85};
}

std::optional<Finding> exposed_copy(const RunView&, const RankRecords& rank, const RunSummary&) {
    const CopyEntry* copy = copy_to_device(rank, /*pageable=*/false);
    constexpr double kWarn = 0.05;
    if (copy == nullptr) {
        return std::nullopt;
    }
    const double exposed = share_of_span(rank, copy->us - copy->overlapped_us);
    if (exposed < kWarn) {
        return std::nullopt;
    }
    return Finding{
        .severity = severity_of_lost(exposed),
        .evidence = {{"exposed_share", exposed}, {"copy_us", copy->us}, {"overlapped_us", copy->overlapped_us}},
        .gain = gain_of_share(exposed, 0.5),
        .confidence = 0.8};
}

}  // namespace

std::span<const Rule> copy_rules() {
    static constexpr std::array kRules = {
        Rule{"pageable-copy",
             "the GPU is idle for 2 % of the time while batches are copied from pageable memory; without a profile, a "
             "program whose loader does not pin spends 5 % of the time in copies",
             "`pin_memory=True` and `non_blocking=True`; `data.pin_memory`", pageable_copy, Needs::gpu},
        Rule{"copy-not-overlapped", "copies from pinned memory take 5 % of the time while no kernel runs",
             "copy the next batch on a separate stream", exposed_copy, Needs::gpu},
    };
    return kRules;
}

}  // namespace stoker
