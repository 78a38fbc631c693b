// Made-up runs for the tests of the rules: steady steps of 10 ms, in intervals of one second.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/diagnose/advice/advise.h"
#include "stoker/diagnose/diagnose.h"

namespace stoker {

struct MadeUpRun {
    std::map<Phase, double> share = {};   // of each step; empty: forward takes all
    std::map<Stage, double> stages = {};  // of all workers' time, summed over workers; the rest is `blocked`
    double worker_cpu = 1;                // of the workers' busy time: the part on a core
    int workers = 2;
    int prefetch = 3;
    double cores = 2;
    double process_cores = 1;  // kept busy
    double busy_share = 0.5;   // of the cores, by all processes
    int batch_size = 64;
    int seconds = 10;

    RankRecords rank() const {
        RankRecords out;
        out.facts.host = {.cores = cores, .ranks = 1, .memory_bytes = std::int64_t{8} << 30};
        out.facts.data = {.path = "photos", .codec = "jpeg", .samples = 1000, .sample_bytes = 100e3};
        out.facts.data.workers = workers;
        out.facts.data.prefetch = prefetch;
        out.facts.train.batch_size = batch_size;
        constexpr int kSteps = 100;  // a second
        for (int second = 0; second < seconds; ++second) {
            IntervalEntry interval{.first_step = second * kSteps + 1, .last_step = (second + 1) * kSteps, .seconds = 1};
            interval.user_seconds = process_cores;
            interval.system_seconds = 0;
            interval.busy_share = busy_share;
            interval.workers = stage_times(1);
            for (int i = 0; i < kSteps; ++i) {
                StepEntry step{.step = interval.first_step + i, .epoch = 1, .samples = batch_size};
                if (share.empty()) {
                    step.host.times[static_cast<std::size_t>(Phase::forward)] = nanoseconds_of(1.0 / kSteps);
                }
                for (const auto& [phase, part] : share) {
                    step.host.times[static_cast<std::size_t>(phase)] = nanoseconds_of(part / kSteps);
                }
                out.steps.push_back(step);
            }
            out.intervals.push_back(interval);
        }
        return out;
    }

    StageTimes stage_times(double span) const {
        StageTimes times;
        const double all = span * std::max(workers, 1);
        double blocked = workers == 0 ? 0 : all;
        for (const auto& [stage, part] : stages) {
            times[stage] = nanoseconds_of(all * part);
            blocked -= all * part;
            times.cpu += nanoseconds_of(all * part * worker_cpu);
        }
        times[Stage::blocked] = nanoseconds_of(std::max(0.0, blocked));
        return times;
    }

    static std::chrono::nanoseconds nanoseconds_of(double seconds) {
        return std::chrono::nanoseconds(static_cast<std::int64_t>(seconds * 1e9));
    }
};

// The same, as `python -m stoker watch` records it.
inline RankRecords watched(const MadeUpRun& run) {
    RankRecords rank = run.rank();
    rank.facts.writer = kPythonWriter;
    return rank;
}

// diagnose(). Each finding is also said to each audience, although some never have it: a text that names evidence its
// rule does not give throws.
inline Diagnosis diagnose_for_all(const RunRecords& records) {
    const RunView run(records);
    Diagnosis diagnosis = diagnose(records);
    for (Finding finding : diagnosis.findings) {
        EXPECT_NE(finding.text, "") << finding.rule;
        for (const Audience audience : {Audience::recipe, Audience::own_trace, Audience::pytorch,
                                        Audience::stoker_loader, Audience::torch_trace}) {
            EXPECT_NO_THROW(advise(finding, run, audience)) << finding.rule;
        }
    }
    return diagnosis;
}

inline Diagnosis diagnose_rank(const RankRecords& rank) {
    return diagnose_for_all({.ranks = {rank}});
}

inline std::optional<Finding> found_in(const RunRecords& records, std::string_view rule) {
    for (const Finding& finding : diagnose_for_all(records).findings) {
        if (finding.rule == rule) {
            return finding;
        }
    }
    return {};
}

inline std::vector<std::string> rules_above_info(const Diagnosis& diagnosis) {
    std::vector<std::string> names;
    for (const Finding& finding : diagnosis.findings) {
        if (finding.severity != Severity::info) {
            names.push_back(finding.rule);
        }
    }
    return names;
}

}  // namespace stoker
