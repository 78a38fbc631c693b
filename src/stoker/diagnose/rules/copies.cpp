// Copies of batches to the GPU that it has to wait for.
#include "stoker/diagnose/rules/rule_families.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
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

// Of a watched program, whose copies are not seen one by one: its loader pins nothing, and the host is in copies.
std::optional<Finding> pageable_copy_by_facts(const RankRecords& rank, const RunSummary& run) {
    constexpr double kWarn = 0.05;  // of the time: a copy waits for the kernels before it, too
    const double share = run.of(Phase::copy);
    if (!in_python(rank) || rank.profile || rank.facts.data.pinned.value_or(true) || share < kWarn ||
        !run.long_enough()) {
        return std::nullopt;
    }
    Finding finding = finding_of("pageable-copy", severity_of_lost(share), rank, run);
    finding.text = fmt::format(
        "The training thread copies batches to the GPU for {:.0f} % of the time, from memory that is not pinned, which "
        "blocks it. Copy from pinned memory.",
        100 * share);
    finding.evidence = {{"copy_share", share}};
    finding.fix.code = "DataLoader(..., pin_memory=True); batch = batch.to(device, non_blocking=True)";
    finding.gain = gain_of_share(share, 0);
    finding.confidence = 0.5;
    return finding;
}

std::vector<Finding> pageable_copy(const JudgedRun& records) {
    return for_gpus(records, [](const RankRecords& rank, const RunSummary& run, std::vector<Finding>& findings) {
        if (auto finding = pageable_copy_by_facts(rank, run)) {
            findings.push_back(*std::move(finding));
            return;
        }
        constexpr std::int64_t kBlocking = 64 << 10;  // smaller copies do not block the host
        const CopyEntry* copy = copy_to_device(rank, /*pageable=*/true);
        const double lost = lost_share(rank, run, Phase::copy);
        if (copy == nullptr || copy->bytes < kBlocking * copy->count || lost < kPageableWarn) {
            return;
        }
        Finding finding = finding_of("pageable-copy", severity_of_lost(lost), rank, run);
        finding.text = fmt::format(
            "The GPU is idle for {:.0f} % of the time while batches are copied from pageable memory, which blocks the "
            "host. Copy from pinned memory.",
            100 * lost);
        finding.evidence = {{"lost_share", lost},
                            {"copies", static_cast<double>(copy->count)},
                            {"copy_us", copy->us},
                            {"copy_bytes", static_cast<double>(copy->bytes)}};
        finding.fix = {.recipe = {{"data.pin_memory", "true"}},
                       .code = "DataLoader(..., pin_memory=True); batch = batch.to(device, non_blocking=True)"};
        finding.gain = gain_of_share(lost, 0.5);
        finding.confidence = 0.85;
        findings.push_back(finding);
    });
}

std::vector<Finding> exposed_copy(const JudgedRun& records) {
    return for_gpus(records, [](const RankRecords& rank, const RunSummary& run, std::vector<Finding>& findings) {
        const CopyEntry* copy = copy_to_device(rank, /*pageable=*/false);
        constexpr double kWarn = 0.05;
        if (copy == nullptr) {
            return;
        }
        const double exposed = share_of_span(rank, copy->us - copy->overlapped_us);
        if (exposed < kWarn) {
            return;
        }
        Finding finding = finding_of("copy-not-overlapped", severity_of_lost(exposed), rank, run);
        finding.text = fmt::format(
            "Copies to the GPU take {:.0f} % of the time while no kernel runs. Copy the next batch on a stream of its "
            "own.",
            100 * exposed);
        finding.evidence = {{"exposed_share", exposed}, {"copy_us", copy->us}, {"overlapped_us", copy->overlapped_us}};
        finding.fix.code =
            "# of DataLoader(..., pin_memory=True)\n"
            "with torch.cuda.stream(copy_stream): next_batch = batch.to(device, non_blocking=True)";
        finding.gain = gain_of_share(exposed, 0.5);
        finding.confidence = 0.8;
        findings.push_back(finding);
    });
}

}  // namespace

std::span<const Rule> copy_rules() {
    static constexpr std::array kRules = {
        Rule{"pageable-copy",
             "the GPU is idle for 2 % of the time while batches are copied from pageable memory; without a profile, a "
             "program whose loader does not pin spends 5 % of the time in copies",
             "`pin_memory=True` and `non_blocking=True`; `data.pin_memory`", pageable_copy},
        Rule{"copy-not-overlapped", "copies from pinned memory take 5 % of the time while no kernel runs",
             "copy the next batch on a stream of its own", exposed_copy},
    };
    return kRules;
}

}  // namespace stoker
