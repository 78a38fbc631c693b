// Problems that only a watch of a Python program shows: loops over elements, and fp32 on a device that computes bf16
// faster.
#include "stoker/diagnose/rules/rule_families.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>

#include "stoker/diagnose/rules/lost_time.h"
#include "stoker/diagnose/rules/run_summary.h"

namespace stoker {
namespace {

constexpr double kPythonWarn = 0.05;  // of the time

struct Loop {
    std::string place = {};  // the line with the most time
    double per_step = 0;     // how often that line runs
    double worst_us = 0;
    double us = 0;  // of all lines that run so often
};

// Lines that run so often, and for so short, that they are the body of a loop over elements.
Loop find_loop(const RankRecords& rank, double steps) {
    constexpr double kOften = 200;  // in a step
    constexpr double kShort = 100;  // microseconds: a few operators on one element
    std::map<std::string, LineEntry> lines;
    for (const IntervalEntry& interval : rank.intervals) {
        for (const LineEntry& line : interval.lines) {
            LineEntry& sum = lines[line.place];
            sum.us += line.us;
            sum.per_step = std::max(sum.per_step, line.per_step);
        }
    }
    Loop loop;
    for (const auto& [place, line] : lines) {
        const double per_step = line.per_step.value_or(0);
        if (per_step < kOften || line.us / steps > kShort * per_step) {
            continue;
        }
        loop.us += line.us;
        if (line.us > loop.worst_us) {
            loop.place = place;
            loop.per_step = per_step;
            loop.worst_us = line.us;
        }
    }
    return loop;
}

std::optional<Finding> python_loop(const RunView&, const RankRecords& rank, const RunSummary& run) {
    double us = 0;
    double steps = 0;
    for (const IntervalEntry& interval : rank.intervals) {
        us += std::chrono::duration<double, std::micro>(interval.host.total()).count();
        steps += static_cast<double>(interval.last_step - interval.first_step + 1);
    }
    if (!in_python(rank) || us <= 0) {
        return std::nullopt;
    }
    const Loop loop = find_loop(rank, steps);
    const double share = std::min(1.0, loop.us / us);
    // A host that runs ahead of a GPU waits later for the time that it saves here.
    const double lost = run.on_cpu ? share : std::max(0.0, share - run.of(Phase::sync));
    if (lost < kPythonWarn) {
        return std::nullopt;
    }
    return Finding{.severity = severity_of_lost(lost),
                   .evidence = {{"loop_share", share}, {"iterations_per_step", loop.per_step}},
                   .gain = gain_of_share(lost, 0.7),
                   .confidence = 0.85,
                   .place = loop.place};
}

// The share of the time in matrix products, at the rate that was measured for large ones: they take more.
double product_share(const RankRecords& rank, const RunSummary& run) {
    const double rate = rank.facts.device.fp32_flops.value_or(0);
    const double step = run.steps > 0 ? run.seconds / static_cast<double>(run.steps) : 0;
    return rate > 0 && step > 0 ? std::min(1.0, rank.facts.train.matmul_flops.value_or(0) / rate / step) : 0;
}

std::optional<Finding> full_precision(const RunView&, const RankRecords& rank, const RunSummary& run) {
    constexpr double kFaster = 1.3;
    constexpr double kEligible = 0.1;  // of the time, as in traces
    const double speedup = rank.facts.device.bf16_speedup.value_or(1);
    // A GPU may compute in all phases, but a step cannot be shorter than the host's wait for its batch.
    const double passes = run.on_cpu ? run.of(Phase::forward) + run.of(Phase::backward) : 1 - run.of(Phase::wait);
    const double products = product_share(rank, run);
    const double share = run.on_cpu ? products : std::min(products, passes);
    if (!in_python(rank) || rank.facts.train.precision != "fp32" || speedup < kFaster || share < kEligible ||
        run.gpu_is_ahead()) {
        return std::nullopt;
    }
    // Products of the model's sizes reach less than the rate of large ones, in both types.
    const double most = std::max(share, std::min(2 * share, passes));
    const double faster = 1 - 1 / speedup;
    // On a CPU the other operations of the passes move activations, and autocast halves their bytes.
    const double high = std::min(0.99, most * faster + (run.on_cpu ? std::max(passes - most, 0.0) / 2 : 0));
    return Finding{.severity = severity_of_lost(share * faster),
                   .evidence = {{"product_share", share}, {"bf16_speedup", speedup}},
                   .gain = {.low = 1 / (1 - share / 2 * faster),
                            .expected = 1 / (1 - (share * faster + high) / 2),
                            .high = 1 / (1 - high)},
                   .confidence = 0.7};
}

}  // namespace

std::span<const Rule> python_rules() {
    static constexpr std::array kRules = {
        Rule{"python-loop",
             "in a Python program, lines that run 200 times or more in a step take 5 % of the time (critical: 20 %)",
             "one operation on the whole tensor", python_loop},
        Rule{"full-precision",
             "in a Python program, matrix products take 10 % of the time in fp32, bf16 is measured to be faster, and "
             "the GPU does not wait for the host",
             "`torch.autocast` with bfloat16", full_precision},
    };
    return kRules;
}

}  // namespace stoker
