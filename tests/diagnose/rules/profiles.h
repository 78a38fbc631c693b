// Made-up profiles for the tests of the rules, and look-ups in findings.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <optional>
#include <string_view>

#include "stoker/diagnose/diagnose.h"

namespace stoker {

// Ten steps of 10 ms on a GPU that is idle for `idle` of the time, by phase of the host.
inline RankRecords made(const std::map<Phase, double>& share, const std::map<Phase, double>& idle, bool gpu = true) {
    RankRecords rank;
    rank.facts.writer = "torch.profiler";
    rank.facts.device = {.type = gpu ? "cuda" : "cpu", .memory_bytes = 1000, .tensor_cores = gpu};
    for (int i = 0; i < 10; ++i) {
        StepEntry step{.step = i + 1};
        double rest = 1;
        for (const auto& [phase, part] : share) {
            step.host.times[static_cast<std::size_t>(phase)] = std::chrono::nanoseconds(static_cast<long>(1e7 * part));
            rest -= part;
        }
        step.host.times[static_cast<std::size_t>(Phase::forward)] +=
            std::chrono::nanoseconds(static_cast<long>(1e7 * rest));
        rank.steps.push_back(step);
    }
    ProfileEntry profile{.span_us = 1e5};
    if (gpu) {
        profile.gpu = GpuEntry{.times = {.compute_us = 9e4}, .kernels = 1000, .kernel_us = 9e4, .tensor_core_us = 5e4};
        profile.idle_during.emplace();
        for (const auto& [phase, part] : idle) {
            (*profile.idle_during)[static_cast<std::size_t>(phase)] =
                std::chrono::nanoseconds(static_cast<long>(1e8 * part));
        }
    }
    rank.profile = profile;
    return rank;
}

inline std::optional<Finding> find(const RankRecords& rank, std::string_view rule) {
    for (const Finding& finding : diagnose({.kind = "trace", .ranks = {rank}}).findings) {
        if (finding.rule == rule) {
            EXPECT_EQ(finding.first_step, 2);  // a tenth of the steps is warm-up
            EXPECT_EQ(finding.last_step, 10);
            EXPECT_FALSE(finding.fix.code.empty());
            EXPECT_LE(finding.gain.low, finding.gain.expected);
            EXPECT_LE(finding.gain.expected, finding.gain.high);
            return finding;
        }
    }
    return {};
}

inline double value(const Finding& finding, std::string_view name) {
    for (const Evidence& fact : finding.evidence) {
        if (fact.name == name) {
            return fact.value;
        }
    }
    ADD_FAILURE() << "no evidence " << name;
    return 0;
}

}  // namespace stoker
