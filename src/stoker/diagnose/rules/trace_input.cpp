// The input of a run that torch.profiler traced: how long the training thread waited for batches. What the worker
// processes did is not in the trace.
#include "stoker/diagnose/rules/rule_families.h"

#include <array>
#include <fmt/format.h>
#include <string_view>

#include "stoker/diagnose/rules/lost_time.h"
#include "stoker/diagnose/rules/run_summary.h"

namespace stoker {
namespace {

// xprof's limits, as for runs of Stoker.
constexpr double kInputWarn = 0.05;

// A trace says nothing of the host, so that the program has to ask for its share of the cores.
constexpr std::string_view kOwnCores =
    "import os  # a container's CPU quota may allow fewer\n"
    "cores = max(1, len(os.sched_getaffinity(0)) // int(os.environ.get(\"LOCAL_WORLD_SIZE\", 1)))\n";

// What a trace does not hold.
constexpr std::string_view kWatch =
    "# python -m stoker watch train.py: what the workers do, and how fast stoker.Loader reads the same images";

std::vector<Finding> input_bound(const JudgedRun& records) {
    std::vector<Finding> findings;
    for (const RankRecords& rank : records.ranks) {
        const RunSummary& run = records.summary(rank);
        const double lost = lost_share(rank, run, Phase::wait);
        if (records.kind != "trace" || lost < kInputWarn) {
            continue;
        }
        const bool loads_itself = rank.facts.data.workers == 0;
        Finding finding = finding_of("input-bound", severity_of_lost(lost), rank, run);
        finding.evidence = {{"wait_share", run.of(Phase::wait)}, {"lost_share", lost}};
        if (rank.facts.writer == kOwnWriter) {
            finding.text = fmt::format("Waiting for the next batch costs {:.0f} % of the time.", 100 * lost);
            finding.gain = gain_of_share(lost, 0.2);
            finding.confidence = 0.7;
        } else if (loads_itself) {
            finding.evidence.push_back({"workers", 0});
            finding.text = fmt::format(
                "The training thread loads the data itself, which costs {:.0f} % of the time. Let worker processes do "
                "it.",
                100 * lost);
            finding.fix.code = fmt::format(
                "{}DataLoader(..., num_workers=cores, persistent_workers=True, pin_memory=True)", kOwnCores);
            finding.gain = gain_of_share(lost, 0.4);
            finding.confidence = 0.9;
        } else {
            finding.text = fmt::format(
                "Waiting for the next batch costs {:.0f} % of the time. Raise num_workers while cores are free; else "
                "make loading cheaper: stoker.Loader for images, packed files, a cache.",
                100 * lost);
            finding.fix.code =
                fmt::format("{}DataLoader(..., num_workers=cores, prefetch_factor=4)\n{}", kOwnCores, kWatch);
            finding.gain = gain_of_share(lost, 0.2);
            finding.confidence = 0.7;
        }
        findings.push_back(finding);
    }
    return findings;
}

}  // namespace

std::span<const Rule> trace_input_rules() {
    static constexpr std::array kRules = {
        Rule{"input-bound",
             "in a trace of torch.profiler, waiting for the loader costs 5 % of the time (critical: 20 %)",
             "`num_workers`, one for each core that is free; else cheaper loading", input_bound},
    };
    return kRules;
}

}  // namespace stoker
