// Rules for programs that `python -m stoker watch` ran.
#include <gmock/gmock.h>

#include "diagnose/rules/support.h"

namespace stoker {
namespace {

using testing::HasSubstr;

// A line that takes `share` of the time.
RankRecords with_line(double share, double per_step) {
    RankRecords rank = watched({});
    for (IntervalEntry& interval : rank.intervals) {
        interval.host.times[static_cast<std::size_t>(Phase::forward)] = MadeUpRun::nanoseconds_of(1);
        interval.lines = {{.place = "train.py:41", .per_step = per_step, .us = 1e6 * share}};
    }
    return rank;
}

TEST(PythonRules, ALoopOverElementsIsNamed) {
    const Diagnosis diagnosis = diagnose_rank(with_line(0.3, 500));
    ASSERT_EQ(diagnosis.verdict.rule, "python-loop");
    EXPECT_THAT(diagnosis.verdict.text, HasSubstr("train.py:41 runs 500 times"));
    EXPECT_NEAR(diagnosis.findings.front().gain.high, 1 / 0.7, 1e-6);
    EXPECT_EQ(diagnose_rank(with_line(0.3, 100)).verdict.rule, "healthy") << "one of the layers of a deep model";
    EXPECT_EQ(diagnose_rank(with_line(0.03, 500)).verdict.rule, "healthy");
    RankRecords stoker = with_line(0.3, 500);
    stoker.facts.writer = "stoker";
    EXPECT_EQ(diagnose_rank(stoker).verdict.rule, "healthy");
}

TEST(PythonRules, LongOperationsAreNoLoop) {
    RankRecords rank = with_line(0.9, 200);
    for (IntervalEntry& interval : rank.intervals) {
        interval.last_step = interval.first_step;  // a step of a second: 4.5 ms for each run of the line
    }
    EXPECT_EQ(diagnose_rank(rank).verdict.rule, "healthy");
}

RankRecords with_products(double flops, const std::string& precision) {
    RankRecords rank = watched({});
    rank.facts.device.fp32_flops = 1e11;
    rank.facts.device.bf16_speedup = 4;
    rank.facts.train.matmul_flops = flops;  // in steps of 10 ms
    rank.facts.train.precision = precision;
    return rank;
}

TEST(PythonRules, Fp32WhereBf16IsFaster) {
    const Diagnosis diagnosis = diagnose_rank(with_products(5e8, "fp32"));
    ASSERT_EQ(diagnosis.verdict.rule, "full-precision");
    EXPECT_THAT(diagnosis.findings.front().fix.code, HasSubstr("torch.autocast(\"cpu\", torch.bfloat16)"));
    EXPECT_NEAR(diagnosis.findings.front().gain.low, 1 / (1 - 0.25 * 0.75), 1e-6);
    EXPECT_EQ(diagnose_rank(with_products(5e8, "bf16")).verdict.rule, "healthy");
    EXPECT_EQ(diagnose_rank(with_products(5e7, "fp32")).verdict.rule, "healthy") << "5 % of the time";
    EXPECT_EQ(diagnosis.findings.front().severity, Severity::critical);
    RankRecords little = with_products(2.5e8, "fp32");  // 25 % of the time; bf16 saves a quarter of that
    little.facts.device.bf16_speedup = 1.33;
    EXPECT_EQ(diagnose_rank(little).findings.front().severity, Severity::warn);
    RankRecords slow = with_products(5e8, "fp32");
    slow.facts.device.bf16_speedup = 0.5;
    EXPECT_EQ(diagnose_rank(slow).verdict.rule, "healthy");
}

// 3 of 10 ms in products, 8 in the passes: twice the products' estimate leaves 2 ms of activations, which are halved.
TEST(PythonRules, Bf16AlsoHalvesActivationsOnACpu) {
    RankRecords rank = watched({.share = {{Phase::forward, 0.4}, {Phase::backward, 0.4}, {Phase::optimizer, 0.2}}});
    rank.facts.device.fp32_flops = 1e11;
    rank.facts.device.bf16_speedup = 4;
    rank.facts.train.matmul_flops = 3e8;
    rank.facts.train.precision = "fp32";
    const auto found = found_in({.ranks = {rank}}, "full-precision");
    ASSERT_TRUE(found);
    EXPECT_NEAR(found->gain.high, 1 / (1 - 0.6 * 0.75 - 0.1), 1e-6);
    EXPECT_NEAR(found->gain.expected, 1 / (1 - (0.3 * 0.75 + 0.6 * 0.75 + 0.1) / 2), 1e-6);
}

RankRecords on_gpu(RankRecords rank, std::optional<double> done_us, std::optional<double> busy_us = {}) {
    rank.facts.device.type = "cuda";
    for (IntervalEntry& interval : rank.intervals) {
        interval.gpu_done_us = done_us;
        interval.gpu_busy_us = busy_us;
    }
    return rank;
}

TEST(PythonRules, Fp32OfAGpuThatWaits) {
    EXPECT_EQ(diagnose_rank(on_gpu(with_products(5e8, "fp32"), {}, 300)).verdict.rule, "full-precision");
    const Diagnosis ahead = diagnose_rank(on_gpu(with_products(5e8, "fp32"), 300));
    EXPECT_EQ(ahead.verdict.rule, "launch-bound");
    EXPECT_EQ(ahead.findings.size(), 1U) << "bf16 brings nothing";
    RankRecords waiting = on_gpu(watched({.share = {{Phase::wait, 0.6}, {Phase::forward, 0.4}}}), {}, 300);
    waiting.facts.device.fp32_flops = 1e11;
    waiting.facts.device.bf16_speedup = 4;
    waiting.facts.train.matmul_flops = 5e8;  // 5 of 10 ms
    waiting.facts.train.precision = "fp32";
    const auto found = found_in({.ranks = {waiting}}, "full-precision");
    ASSERT_TRUE(found);
    EXPECT_NEAR(found->gain.high, 1 / (1 - 0.4 * 0.75), 1e-6) << "6 of 10 ms are waits for the batch";
    EXPECT_NEAR(found->evidence.at(0).value, 0.4, 1e-6);
}

// The host waits for the GPU between the backward pass and the optimizer, as for the norm of the gradients.
TEST(PythonRules, AGpuThatIsWaitedForWithinTheStepIsTheLimit) {
    for (const Phase hidden : {Phase::sync, Phase::unmeasured}) {
        RankRecords rank = on_gpu(watched({.share = {{Phase::forward, 0.4}, {hidden, 0.6}}}), 200);
        rank.facts.device.fp32_flops = 1e11;
        rank.facts.device.bf16_speedup = 4;
        rank.facts.train.matmul_flops = 5e8;
        rank.facts.train.precision = "fp32";
        EXPECT_EQ(diagnose_rank(rank).verdict.rule, "full-precision");
    }
}

TEST(PythonRules, AGpuThatIsDoneWhenAStepEnds) {
    const RankRecords rank = watched({.share = {{Phase::forward, 0.4}, {Phase::backward, 0.6}}});
    const Diagnosis diagnosis = diagnose_rank(on_gpu(rank, 200));
    ASSERT_EQ(diagnosis.verdict.rule, "launch-bound");
    EXPECT_THAT(diagnosis.verdict.text,
                HasSubstr("100 % of the time, and when a step ends, the GPU has done its work"));
    EXPECT_EQ(diagnosis.findings.front().evidence.at(1).name, "gpu_done_share");
    EXPECT_EQ(diagnose_rank(on_gpu(rank, {}, 200)).verdict.rule, "healthy") << "the GPU is the limit";
    EXPECT_EQ(diagnose_rank(on_gpu(rank, 1500)).verdict.rule, "healthy") << "seen too late, in steps of 10 ms";
    RankRecords short_run = on_gpu(rank, 200);
    short_run.intervals.resize(3);
    EXPECT_EQ(diagnose_rank(short_run).verdict.rule, "healthy") << "too few looks";
    RankRecords parts = on_gpu(rank, 200);
    parts.facts.train.accumulate = 8;
    EXPECT_EQ(diagnose_rank(parts).verdict.rule, "healthy") << "a sixth of a micro-batch";
}

// On a GPU: `wait_ms` of each step of 10 ms are waits for it, at one line.
RankRecords waiting_for_gpu(double wait_ms, double per_step = 1) {
    const double waits = wait_ms / 10;
    RankRecords rank = watched(
        {.share = {
             {Phase::forward, 0.3}, {Phase::backward, 0.5 - waits}, {Phase::sync, waits}, {Phase::unmeasured, 0.2}}});
    rank.facts.device.type = "cuda";
    for (IntervalEntry& interval : rank.intervals) {
        const auto steps = static_cast<double>(interval.last_step - interval.first_step + 1);
        interval.syncs = {{.place = "train.py:14",
                           .count = static_cast<std::int64_t>(per_step * steps),
                           .us = 1e3 * wait_ms * steps}};
    }
    return rank;
}

TEST(PythonRules, AGpuThatIsDoneBeforeTheHostWaitsForIt) {
    const Diagnosis diagnosis = diagnose_rank(waiting_for_gpu(0.04));
    ASSERT_EQ(diagnosis.verdict.rule, "launch-bound");
    EXPECT_THAT(diagnosis.verdict.text, HasSubstr("(train.py:14), the GPU is done after 40 us"));
    EXPECT_THAT(diagnosis.findings.front().fix.code, HasSubstr("reduce-overhead"));
    EXPECT_NEAR(diagnosis.findings.front().gain.high, 1 / (1 - 0.796), 1e-3);
    EXPECT_NE(diagnose_rank(waiting_for_gpu(3)).verdict.rule, "launch-bound") << "the GPU is the limit";
    EXPECT_EQ(diagnose_rank(waiting_for_gpu(0.04, 0.02)).verdict.rule, "healthy")
        << "how far behind it is is not known";
    RankRecords compiled = waiting_for_gpu(0.04);
    compiled.facts.train.compiled = "compile";
    EXPECT_EQ(diagnose_rank(compiled).verdict.rule, "healthy");
    RankRecords copies = waiting_for_gpu(0.04);
    for (StepEntry& step : copies.steps) {  // pageable: such a copy waits for the GPU's work
        step.host.times[static_cast<std::size_t>(Phase::copy)] = MadeUpRun::nanoseconds_of(0.005);
    }
    EXPECT_NE(diagnose_rank(copies).verdict.rule, "launch-bound");
    RankRecords on_cpu = waiting_for_gpu(0.04);
    on_cpu.facts.device.type = "cpu";
    EXPECT_EQ(diagnose_rank(on_cpu).verdict.rule, "healthy");
}

TEST(PythonRules, TooManyWorkerProcesses) {
    RankRecords rank = watched({.share = {{Phase::wait, 0.3}, {Phase::forward, 0.7}}, .workers = 16});
    for (IntervalEntry& interval : rank.intervals) {
        interval.start_us = 1e5;
        interval.core_wait_us = 1e5;
    }
    const Diagnosis diagnosis = diagnose_rank(rank);
    ASSERT_EQ(diagnosis.verdict.rule, "many-workers");
    EXPECT_EQ(rules_above_info(diagnosis), std::vector<std::string>{"many-workers"}) << "explains the wait";
    EXPECT_THAT(diagnosis.findings.front().fix.code, HasSubstr("num_workers=2"));
    for (IntervalEntry& interval : rank.intervals) {
        interval.start_us = interval.core_wait_us = 1e3;
    }
    EXPECT_NE(diagnose_rank(rank).verdict.rule, "many-workers");
}

// A data set of small operations: torch's other thread has its core all the time, and does nothing of use there.
TEST(PythonRules, ThreadsThatSpinAreFreeCores) {
    const MadeUpRun spinning{.share = {{Phase::wait, 0.98}, {Phase::forward, 0.02}},
                             .stages = {{Stage::augment, 1}},
                             .workers = 0,
                             .process_cores = 2,
                             .busy_share = 1};
    const Diagnosis diagnosis = diagnose_rank(watched(spinning));
    ASSERT_EQ(diagnosis.verdict.rule, "no-workers");
    EXPECT_THAT(diagnosis.verdict.text, HasSubstr("torch's own threads take 1.0 cores"));
    EXPECT_GT(diagnosis.findings.front().gain.expected, 1.5);
    EXPECT_LT(diagnosis.findings.front().gain.high, 2.1);
    MadeUpRun others = spinning;
    others.process_cores = 1;  // another process has the second core
    EXPECT_LT(found_in({.ranks = {watched(others)}}, "no-workers")->gain.expected, 1.1);
    EXPECT_NE(diagnose_rank(watched(others)).verdict.rule, "healthy") << "it waits nearly all of the time";
}

TEST(PythonRules, ShortFetchesNeedNoWorkers) {
    const std::map<Phase, double> share = {{Phase::wait, 0.2}, {Phase::forward, 0.8}};
    RankRecords rank = watched({.share = share, .workers = 0});  // 2 ms of a step
    EXPECT_EQ(diagnose_rank(rank).verdict.rule, "no-workers");
    for (StepEntry& step : rank.steps) {
        for (std::chrono::nanoseconds& time : step.host.times) {
            time /= 10;  // a worker process would need as long to hand over the batch
        }
    }
    EXPECT_NE(diagnose_rank(rank).verdict.rule, "no-workers");
}

TEST(PythonRules, WorkersThatStartWithEachEpoch) {
    RankRecords rank = watched({.share = {{Phase::wait, 0.3}, {Phase::forward, 0.7}}});
    for (IntervalEntry& interval : rank.intervals) {
        interval.start_us = 2e5;
    }
    const Diagnosis diagnosis = diagnose_rank(rank);
    ASSERT_EQ(diagnosis.verdict.rule, "worker-startup");
    EXPECT_THAT(diagnosis.findings.front().fix.code, HasSubstr("persistent_workers=True"));
    for (IntervalEntry& interval : rank.intervals) {
        interval.start_us = 1e5;  // the smaller part of the wait
    }
    EXPECT_NE(diagnose_rank(rank).verdict.rule, "worker-startup");
}

TEST(PythonRules, SyncsCostNoMoreThanTheHostsOwnWork) {
    RankRecords rank = watched({.share = {{Phase::sync, 0.8}, {Phase::forward, 0.2}}});
    for (IntervalEntry& interval : rank.intervals) {
        interval.syncs = {{.place = "train.py:9", .count = 100, .us = 8e5}};
    }
    const Diagnosis diagnosis = diagnose_rank(rank);
    ASSERT_EQ(diagnosis.verdict.rule, "sync-points");
    EXPECT_NEAR(diagnosis.findings.front().gain.high, 1 / 0.8, 1e-3) << "the device itself needs 80 % of the time";
}

}  // namespace
}  // namespace stoker
