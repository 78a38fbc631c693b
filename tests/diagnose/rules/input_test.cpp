// Why the trainer waits: each cause is named where its evidence is there, and not in the near miss.
#include <gmock/gmock.h>

#include <functional>

#include "diagnose/rules/support.h"
#include "stoker/diagnose/rules/run_summary.h"

namespace stoker {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::map<Phase, double> kWaiting = {{Phase::wait, 0.5}, {Phase::forward, 0.5}};
const std::map<Stage, double> kDecoding = {{Stage::read, 0.05}, {Stage::entropy, 0.5}, {Stage::pixels, 0.4}};

TEST(InputRules, ARunThatDoesNotWaitIsHealthy) {
    const MadeUpRun run{.share = {{Phase::wait, 0.04}, {Phase::forward, 0.96}}, .stages = kDecoding, .workers = 1};
    EXPECT_THAT(rules_above_info(diagnose_rank(run.rank())), IsEmpty());
    EXPECT_EQ(diagnose_rank(run.rank()).verdict.rule, "healthy");
}

TEST(InputRules, NoWorkers) {
    const MadeUpRun run{.share = kWaiting, .stages = kDecoding, .workers = 0};
    const Diagnosis diagnosis = diagnose_rank(run.rank());
    EXPECT_EQ(diagnosis.verdict.rule, "no-workers");
    const Finding& finding = diagnosis.findings.front();
    EXPECT_EQ(finding.severity, Severity::critical);
    EXPECT_THAT(finding.fix.recipe, ElementsAre(RecipeChange{"data.workers", "2"}));
    // Half of the time is saved at best, because one of two cores is busy all the time.
    EXPECT_NEAR(finding.gain.high, 2.0, 0.05);
}

TEST(InputRules, WorkersGainLittleWhileOthersKeepTheCoresBusy) {
    const MadeUpRun run{.share = kWaiting, .stages = kDecoding, .workers = 0, .busy_share = 1};
    const Finding finding = diagnose_rank(run.rank()).findings.front();
    EXPECT_EQ(finding.rule, "other-processes");
    const auto workers = found_in({.ranks = {run.rank()}}, "no-workers");
    ASSERT_TRUE(workers);
    EXPECT_NEAR(workers->gain.expected, 1.0, 0.01);
    EXPECT_NEAR(workers->gain.high, 2.0, 0.05) << "once the others have ended";
    EXPECT_LT(workers->confidence, 0.9);
    EXPECT_EQ(workers->severity, Severity::warn) << "a fix that gains nothing now";
}

TEST(InputRules, PackingGainsLessWithoutAvx512) {
    const MadeUpRun run{.share = {{Phase::wait, 0.95}, {Phase::forward, 0.05}},
                        .stages = {{Stage::entropy, 0.5}, {Stage::pixels, 0.5}},
                        .workers = 2,
                        .process_cores = 2,
                        .busy_share = 1};
    RankRecords rank = run.rank();
    rank.facts.data.codec = "jpeg";
    const auto gain = [&](std::optional<bool> avx512) {
        rank.facts.host.avx512_vbmi2 = avx512;
        return diagnose_rank(rank).findings.front().gain.expected;
    };
    EXPECT_LT(gain(false), gain(true));
    EXPECT_EQ(gain(std::nullopt), gain(true)) << "records of an earlier version";
}

TEST(InputRules, StorageIsSlowWhereReadsUseNoCore) {
    const MadeUpRun run{.share = kWaiting,
                        .stages = {{Stage::read, 0.9}, {Stage::pixels, 0.1}},
                        .worker_cpu = 0.1,
                        .process_cores = 0.6,
                        .busy_share = 0.3};
    const Diagnosis diagnosis = diagnose_rank(run.rank());
    EXPECT_EQ(diagnosis.verdict.rule, "storage-bound");
    EXPECT_EQ(diagnosis.findings.front().fix.recipe.front().key, "data.cache");
}

// A cache gains nothing in the epoch that fills it.
TEST(InputRules, ACacheGainsFromTheSecondEpochOn) {
    const MadeUpRun run{.share = {{Phase::wait, 0.9}, {Phase::forward, 0.1}},
                        .stages = {{Stage::read, 0.95}, {Stage::pixels, 0.05}},
                        .worker_cpu = 0.05,
                        .process_cores = 0.2,
                        .busy_share = 0.2};
    const std::vector<RankRecords> ranks = {run.rank()};
    const auto gain = [&](const std::map<std::string, std::string>& recipe) {
        return diagnose(RunRecords{.kind = "run", .ranks = ranks, .recipe = recipe}).findings.front().gain.expected;
    };
    const double steady = gain({});
    EXPECT_GT(steady, 5);
    EXPECT_NEAR(gain({{"train.epochs", "4"}}), 4 / (1 + 3 / steady), 1e-9);
    EXPECT_NEAR(gain({{"train.epochs", "1"}}), steady, 1e-9) << "by packing";
}

TEST(InputRules, ReadsThatKeepACoreBusyAreNotTheStorage) {
    const MadeUpRun run{
        .share = kWaiting, .stages = {{Stage::read, 0.9}, {Stage::pixels, 0.1}}, .process_cores = 2, .busy_share = 1};
    EXPECT_NE(diagnose_rank(run.rank()).verdict.rule, "storage-bound");
}

TEST(InputRules, ReadsFromTheMemoryOfTheCacheAreNotTheStorage) {
    const MadeUpRun run{.share = kWaiting, .stages = {{Stage::read, 0.9}, {Stage::pixels, 0.1}}, .busy_share = 0.6};
    EXPECT_NE(diagnose_rank(run.rank()).verdict.rule, "storage-bound");
}

TEST(InputRules, AGpuThatNeverIdlesIsNotStarved) {
    // The host ran ahead, waited for batches, and then for the GPU.
    RankRecords rank =
        MadeUpRun{
            .share = {{Phase::wait, 0.45}, {Phase::step, 0.05}, {Phase::sync, 0.5}}, .stages = kDecoding, .workers = 1}
            .rank();
    rank.facts.device.type = "cuda";
    EXPECT_THAT(rules_above_info(diagnose_rank(rank)), IsEmpty());
}

TEST(InputRules, AQuotaBoundsTheCores) {
    // Two cores of 64 are granted, and both are used.
    RankRecords rank =
        MadeUpRun{.share = kWaiting, .stages = kDecoding, .workers = 1, .process_cores = 2, .busy_share = 0.03}.rank();
    rank.facts.host.affinity = 64;
    EXPECT_EQ(diagnose_rank(rank).verdict.rule, "decode-bound");
    EXPECT_THAT(diagnose_rank(rank).verdict.text, HasSubstr("more workers will not help"));
}

TEST(InputRules, AugmentationIsNamedWhereItTakesMost) {
    const MadeUpRun run{.share = kWaiting,
                        .stages = {{Stage::read, 0.05}, {Stage::pixels, 0.2}, {Stage::augment, 0.75}},
                        .process_cores = 2,
                        .busy_share = 1};
    EXPECT_EQ(diagnose_rank(run.rank()).verdict.rule, "augment-bound");
}

TEST(InputRules, AShortQueueIsNamedWhereWorkersAreIdle) {
    const MadeUpRun run{.share = kWaiting, .stages = {{Stage::pixels, 0.3}}, .prefetch = 1};
    const Diagnosis diagnosis = diagnose_rank(run.rank());
    EXPECT_EQ(diagnosis.verdict.rule, "no-prefetch");
    EXPECT_THAT(diagnosis.findings.front().fix.recipe, ElementsAre(RecipeChange{"data.prefetch", "4"}));
    const MadeUpRun longer{.share = kWaiting, .stages = {{Stage::pixels, 0.3}}, .prefetch = 4};
    EXPECT_NE(diagnose_rank(longer.rank()).verdict.rule, "no-prefetch");
}

TEST(InputRules, AColdFirstEpochIsMentioned) {
    RankRecords rank = MadeUpRun{.share = kWaiting, .workers = 2}.rank();
    for (StepEntry& step : rank.steps) {
        step.epoch = step.step <= 500 ? 1 : 2;
        if (step.epoch == 2) {
            step.host.times[static_cast<std::size_t>(Phase::wait)] /= 10;
        }
    }
    const auto found = found_in({.ranks = {rank}}, "cold-cache");
    ASSERT_TRUE(found);
    EXPECT_EQ(found->severity, Severity::info);
}

TEST(InputRules, PackingKeepsTheFieldsOfTheRecipe) {
    RankRecords cold = MadeUpRun{.share = kWaiting, .workers = 2}.rank();
    for (StepEntry& step : cold.steps) {
        step.epoch = step.step <= 500 ? 1 : 2;
        step.host.times[static_cast<std::size_t>(Phase::wait)] /= step.epoch == 2 ? 10 : 1;
    }
    const RankRecords decoding =
        MadeUpRun{.share = kWaiting, .stages = kDecoding, .process_cores = 2, .busy_share = 1}.rank();
    const RankRecords reading = MadeUpRun{.share = kWaiting,
                                          .stages = {{Stage::read, 0.9}, {Stage::pixels, 0.1}},
                                          .worker_cpu = 0.1,
                                          .process_cores = 0.6,
                                          .busy_share = 0.3}
                                    .rank();
    for (const auto& [rule, rank] :
         {std::pair{"cold-cache", cold}, std::pair{"decode-bound", decoding}, std::pair{"storage-bound", reading}}) {
        const auto found = found_in({.ranks = {rank},
                                     .recipe = {{"data.fields.image", "jpg"},
                                                {"data.fields.mask.from", "seg.png"},
                                                {"data.fields.mask.is", "mask"},
                                                {"data.fields.mask.train_ops", "[]"},
                                                {"data.fields.score.is", "value"}}},
                                    rule);
        ASSERT_TRUE(found) << rule;
        EXPECT_THAT(found->fix.code, ::testing::HasSubstr("stoker pack")) << rule;
        EXPECT_THAT(found->fix.code, ::testing::HasSubstr(" --field mask=seg.png:mask --field score:value  #")) << rule;
        EXPECT_THAT(found->fix.code, ::testing::HasSubstr(" --image-field jpg ")) << rule;
    }
}

TEST(InputRules, GainsAreOrdered) {
    for (const int workers : {0, 1, 2}) {
        const MadeUpRun run{.share = kWaiting, .stages = kDecoding, .workers = workers, .process_cores = 1.2};
        for (const Finding& finding : diagnose_rank(run.rank()).findings) {
            EXPECT_LE(finding.gain.low, finding.gain.expected) << finding.rule;
            EXPECT_LE(finding.gain.expected, finding.gain.high) << finding.rule;
            EXPECT_GE(finding.gain.low, 1) << finding.rule;
        }
    }
}

// Steps of a GPU whose host runs ahead through epochs of 40 steps and reads the losses after each. A step costs the
// host 2 ms and the loader 8 ms.
RankRecords short_epochs(double read_us) {
    RankRecords rank = MadeUpRun{.stages = kDecoding, .workers = 1, .seconds = 0}.rank();
    rank.facts.device.type = "cuda";
    rank.facts.train.steps_per_epoch = 40;
    const MadeUpRun loader{.stages = kDecoding, .workers = 1};
    for (int epoch = 0; epoch < 10; ++epoch) {
        IntervalEntry interval{.first_step = 40 * epoch + 1, .last_step = 40 * (epoch + 1), .seconds = 0.4};
        interval.workers = loader.stage_times(0.4);
        interval.syncs = {{.place = "losses", .count = 1, .us = read_us}};
        interval.after_us = read_us;
        for (std::int64_t step = interval.first_step; step <= interval.last_step; ++step) {
            rank.steps.push_back({.step = step, .epoch = epoch + 1});
            rank.steps.back().host.times[static_cast<std::size_t>(Phase::wait)] = std::chrono::milliseconds(8);
            rank.steps.back().host.times[static_cast<std::size_t>(Phase::step)] = std::chrono::milliseconds(2);
        }
        rank.intervals.push_back(interval);
    }
    return rank;
}

TEST(InputRules, AReadAfterTheEpochShowsThatTheGpuWasBusy) {
    EXPECT_THAT(rules_above_info(diagnose_rank(short_epochs(400e3))), IsEmpty()) << "20 ms a step on the GPU";
    EXPECT_THAT(rules_above_info(diagnose_rank(short_epochs(500))), ElementsAre("decode-bound"));
    RankRecords killed = short_epochs(400e3);  // in its first epoch, after the read of the last steps
    killed.facts.train.steps_per_epoch = 1000;
    killed.steps.resize(40);
    killed.intervals.resize(1);
    killed.intervals.front().after_us.reset();
    EXPECT_THAT(rules_above_info(diagnose_rank(killed)), IsEmpty());
}

// Steps hold the reads before them; the interval's sum of waits also has those.
TEST(InputRules, AReadThatAStepHoldsCountsOnce) {
    RankRecords rank = short_epochs(2e3);
    for (IntervalEntry& interval : rank.intervals) {
        interval.syncs = {{.place = "losses", .count = 2, .us = 42e3}};
        const auto middle = std::ranges::find(rank.steps, interval.first_step + 20, &StepEntry::step);
        middle->host.times[static_cast<std::size_t>(Phase::sync)] = std::chrono::milliseconds(40);
    }
    const RunSummary run = summarize(rank);
    // Of 40 steps of 10 ms, and 42 ms.
    EXPECT_NEAR(run.of(Phase::sync), 42.0 / 442, 1e-3);
}

TEST(InputRules, ARunOfTwoIntervalsIsJudgedByItsWorkers) {
    const MadeUpRun run{
        .share = kWaiting, .stages = kDecoding, .workers = 1, .process_cores = 1.4, .busy_share = 0.7, .seconds = 2};
    EXPECT_EQ(diagnose_rank(run.rank()).verdict.rule, "few-workers");
}

// A profile keeps the steps without the profiler, and the intervals of all.
TEST(InputRules, StepsOfTheFirstIntervalAreJudgedWhereTheOthersAreNot) {
    RankRecords rank = MadeUpRun{.share = kWaiting, .stages = kDecoding, .workers = 1, .seconds = 3}.rank();
    rank.steps.resize(40);
    const RunSummary run = summarize(rank);
    EXPECT_EQ(run.first_step, 5);
    EXPECT_EQ(run.last_step, 40);
    rank.steps.clear();
    EXPECT_EQ(summarize(rank).steps, 0);
}

// cuDNN's search of the first step fills the ring: that says nothing about workers that are busy ever after.
TEST(InputRules, WorkersThatHadNothingToDoAtTheStartAreStillBusy) {
    MadeUpRun run{.share = {{Phase::wait, 0.9}, {Phase::step, 0.1}}, .stages = {{Stage::pixels, 0.98}}, .seconds = 2};
    RankRecords rank = run.rank();
    rank.facts.device.type = "cuda";
    IntervalEntry& first = rank.intervals.front();
    first.seconds = 6;
    (*first.workers)[Stage::blocked] += MadeUpRun::nanoseconds_of(2 * 5);
    rank.steps.front().host.times[static_cast<std::size_t>(Phase::backward)] = MadeUpRun::nanoseconds_of(5);
    EXPECT_EQ(diagnose_rank(rank).verdict.rule, "decode-bound");
}

// The last step of an epoch finds a loader that is done.
TEST(InputRules, AShortLastIntervalDoesNotJudgeTheWorkers) {
    MadeUpRun run{.share = {{Phase::wait, 0.9}, {Phase::step, 0.1}}, .stages = {{Stage::pixels, 0.98}}, .seconds = 1};
    RankRecords rank = run.rank();
    rank.facts.device.type = "cuda";
    IntervalEntry last{.first_step = 101, .last_step = 101, .seconds = 0.01};
    last.workers.emplace();
    (*last.workers)[Stage::blocked] = MadeUpRun::nanoseconds_of(0.02);
    rank.steps.push_back(rank.steps.back());
    rank.steps.back().step = 101;
    rank.intervals.push_back(last);
    EXPECT_EQ(diagnose_rank(rank).verdict.rule, "decode-bound");
}

TEST(InputRules, IntervalsWithoutCountersDoNotCountAsIdle) {
    RankRecords rank =
        MadeUpRun{.share = kWaiting, .stages = kDecoding, .workers = 1, .process_cores = 1.4, .busy_share = 0.7}.rank();
    for (std::size_t i = 0; i < rank.intervals.size(); i += 2) {
        rank.intervals[i].user_seconds = rank.intervals[i].system_seconds = rank.intervals[i].busy_share = std::nullopt;
    }
    const Finding finding = diagnose_rank(rank).findings.front();
    EXPECT_EQ(finding.rule, "few-workers");
    EXPECT_NEAR(finding.evidence.at(3).value, 0.7, 1e-9) << finding.evidence.at(3).name;
    EXPECT_NEAR(finding.gain.high, 1 / 0.7, 0.01);
}

TEST(InputRules, CoresThatTrainingAndLoadingFillAreBusyWithoutCounters) {
    MadeUpRun run{.share = {{Phase::wait, 0.15}, {Phase::forward, 0.85}},
                  .stages = {{Stage::read, 0.5}, {Stage::pixels, 0.1}, {Stage::blocked, 0.4}},
                  .workers = 2};
    RankRecords rank = run.rank();
    for (IntervalEntry& interval : rank.intervals) {
        interval.user_seconds = interval.system_seconds = interval.busy_share = std::nullopt;
    }
    const Diagnosis diagnosis = diagnose_rank(rank);
    EXPECT_EQ(diagnosis.verdict.rule, "healthy");
    ASSERT_FALSE(diagnosis.findings.empty());
    EXPECT_EQ(diagnosis.findings.front().rule, "slow-loader");
    EXPECT_NEAR(diagnosis.findings.front().gain.high, 1, 1e-9);
}

TEST(InputRules, TheFixedLoaderBoundsTheGain) {
    const std::map<Phase, double> starved = {{Phase::wait, 0.8}, {Phase::step, 0.2}};
    RankRecords storage = MadeUpRun{.share = starved,
                                    .stages = {{Stage::read, 0.45}, {Stage::pixels, 0.55}},
                                    .worker_cpu = 0.6,
                                    .process_cores = 0.2,
                                    .busy_share = 0.1}
                              .rank();
    storage.facts.device.type = "cuda";
    const Finding reads = diagnose_rank(storage).findings.front();
    EXPECT_EQ(reads.rule, "storage-bound");
    EXPECT_NEAR(reads.gain.high, 1 / 0.55, 0.01) << "the pixels remain";
    EXPECT_LE(reads.gain.expected, reads.gain.high);

    RankRecords augment = MadeUpRun{.share = starved,
                                    .stages = {{Stage::pixels, 0.4}, {Stage::augment, 0.6}},
                                    .process_cores = 0.2,
                                    .busy_share = 0.1}
                              .rank();
    augment.facts.device.type = "cuda";
    EXPECT_EQ(diagnose_rank(augment).findings.front().rule, "augment-bound");
    EXPECT_NEAR(diagnose_rank(augment).findings.front().gain.high, 1 / 0.7, 0.01);

    RankRecords alone = MadeUpRun{.share = {{Phase::wait, 0.95}, {Phase::forward, 0.05}}, .workers = 0}.rank();
    for (IntervalEntry& interval : alone.intervals) {
        interval.user_seconds = interval.system_seconds = interval.busy_share = std::nullopt;
    }
    EXPECT_EQ(diagnose_rank(alone).findings.front().rule, "no-workers");
    EXPECT_NEAR(diagnose_rank(alone).findings.front().gain.high, 2 / 0.95, 0.01) << "two workers";

    const MadeUpRun queue{.share = starved, .stages = {{Stage::pixels, 0.5}}, .prefetch = 1, .process_cores = 0.2};
    EXPECT_EQ(diagnose_rank(queue.rank()).findings.front().rule, "no-prefetch");
    EXPECT_NEAR(diagnose_rank(queue.rank()).findings.front().gain.high, 2, 0.01) << "half of the workers' time is left";
}

// Steps wait for half of their time, and both cores are busy.
RankRecords dct_on_gpu() {
    RankRecords rank =
        MadeUpRun{.share = kWaiting, .stages = {{Stage::pixels, 0.95}}, .process_cores = 2, .busy_share = 1}.rank();
    rank.facts.device.type = "cuda";
    rank.facts.data.codec = "dct";
    rank.facts.data.decode = "exact";
    rank.facts.data.decode_on = "cpu";
    rank.facts.data.cache = "none";
    return rank;
}

Diagnosis diagnose_on_cpu(const RankRecords& rank) {
    return diagnose({.ranks = {rank}, .recipe = {{"data.decode_on", "cpu"}}});
}

TEST(InputRules, AGpuMayDecodeDctRecords) {
    RankRecords rank = dct_on_gpu();
    Diagnosis diagnosis = diagnose_on_cpu(rank);
    EXPECT_EQ(diagnosis.verdict.rule, "decode-bound");
    EXPECT_THAT(diagnosis.verdict.text, HasSubstr("let the GPU decode"));
    EXPECT_THAT(diagnosis.findings.front().fix.recipe, ElementsAre(RecipeChange{"data.decode_on", "\"auto\""}));
    EXPECT_NEAR(diagnosis.findings.front().gain.high, 2, 0.01) << "nothing waits any more";
    rank.facts.data.codec = "dct-zstd";
    diagnosis = diagnose_on_cpu(rank);
    EXPECT_THAT(diagnosis.findings.front().fix.recipe, ElementsAre(RecipeChange{"data.decode_on", "\"auto\""}));
    EXPECT_NEAR(diagnosis.findings.front().gain.high, 2 / (2 - 0.49 * 1.9), 0.01) << "two cores, 0.93 of them freed";
}

TEST(InputRules, AGpuIsNotAskedForWhatItCannotDecode) {
    for (const auto& change : std::vector<std::function<void(RunFacts&)>>{
             [](RunFacts& facts) { facts.device.type = "cpu"; }, [](RunFacts& facts) { facts.data.decode = "fast"; },
             [](RunFacts& facts) { facts.data.cache = "device"; }, [](RunFacts& facts) { facts.data.codec = "jpeg"; },
             [](RunFacts& facts) { facts.data.codec = "dct-ans"; },
             [](RunFacts& facts) { facts.data.cache = "ram"; }}) {
        RankRecords rank = dct_on_gpu();
        change(rank.facts);
        const Fix fix = diagnose_on_cpu(rank).findings.front().fix;
        EXPECT_THAT(fix.recipe, IsEmpty());
        EXPECT_THAT(fix.code, HasSubstr("stoker pack photos packed.stk --codec"));
    }
    const Diagnosis grey =
        diagnose({.ranks = {dct_on_gpu()}, .recipe = {{"data.channels", "1"}, {"data.decode_on", "cpu"}}});
    EXPECT_THAT(grey.findings.front().fix.recipe, IsEmpty());
    EXPECT_THAT(diagnose_rank(dct_on_gpu()).findings.front().fix.recipe, IsEmpty()) << "`auto` has tried";
    for (const char* where : {"device", "auto"}) {
        RankRecords decodes = dct_on_gpu();
        decodes.facts.data.decode_on = where;
        EXPECT_THAT(diagnose_rank(decodes).findings.front().fix.code, HasSubstr("--codec dct --resize-shorter"))
            << "it could not decode raw pixels";
    }
}

TEST(InputRules, AGpuThatDecodesRunsTheOpsToo) {
    RankRecords rank = MadeUpRun{.share = kWaiting,
                                 .stages = {{Stage::read, 0.05}, {Stage::pixels, 0.2}, {Stage::augment, 0.75}},
                                 .process_cores = 2,
                                 .busy_share = 1}
                           .rank();
    rank.facts = dct_on_gpu().facts;
    const Finding moved = diagnose_on_cpu(rank).findings.front();
    EXPECT_EQ(moved.rule, "augment-bound");
    EXPECT_THAT(moved.text, HasSubstr("it then runs the ops"));
    EXPECT_THAT(moved.fix.recipe, ElementsAre(RecipeChange{"data.decode_on", "\"auto\""}));
    EXPECT_NEAR(moved.gain.high, 2, 0.01) << "nothing waits any more";
    EXPECT_THAT(diagnose_rank(rank).findings.front().text, HasSubstr("Crop or resize before the costly ops"));
}

TEST(InputRules, PackedJpegsMayBeDecodedByTheGpu) {
    RankRecords rank = MadeUpRun{.share = {{Phase::wait, 0.9}, {Phase::forward, 0.1}},
                                 .stages = {{Stage::pixels, 0.95}},
                                 .process_cores = 2,
                                 .busy_share = 1}
                           .rank();
    rank.facts = dct_on_gpu().facts;
    rank.facts.data.codec = "jpeg";
    const Finding with_gpu = diagnose_rank(rank).findings.front();
    const Finding kept = diagnose_on_cpu(rank).findings.front();
    rank.facts.device.type = "cpu";
    const Finding without = diagnose_rank(rank).findings.front();
    EXPECT_EQ(kept.gain.expected, without.gain.expected) << "the recipe forbids it";
    EXPECT_THAT(with_gpu.text, HasSubstr("the GPU decodes where the workers fall behind"));
    EXPECT_EQ(with_gpu.fix.code, without.fix.code);
    EXPECT_GT(with_gpu.gain.expected, without.gain.expected);
    EXPECT_EQ(with_gpu.gain.low, without.gain.low) << "the ops may forbid it";
}

TEST(InputRules, AProgressiveJpegsHuffmanTimeIsEstimated) {
    const MadeUpRun run{.share = kWaiting, .stages = {{Stage::pixels, 0.95}}, .process_cores = 2, .busy_share = 1};
    const Diagnosis diagnosis = diagnose_rank(run.rank());
    EXPECT_EQ(diagnosis.verdict.rule, "decode-bound");
    EXPECT_GT(diagnosis.findings.front().gain.high, 1.3);
}

TEST(InputRules, ACacheThatHoldsTheDataIsAskedFor) {
    RankRecords rank = MadeUpRun{.share = kWaiting,
                                 .stages = {{Stage::read, 0.9}, {Stage::pixels, 0.1}},
                                 .worker_cpu = 0.1,
                                 .process_cores = 0.6,
                                 .busy_share = 0.3}
                           .rank();
    rank.facts.data.samples = 100'000;  // 10 GB, with the validation 11 GB
    rank.facts.train.val_samples = 10'000;
    rank.facts.host.memory_bytes = std::int64_t{64} << 30;
    EXPECT_THAT(diagnose_rank(rank).findings.front().fix.recipe,
                ElementsAre(RecipeChange{"data.cache", "\"ram\""}, RecipeChange{"data.cache_as", "\"encoded\""},
                            RecipeChange{"data.cache_bytes", "11550000000"}));
    rank.facts.host.ranks = 4;  // each has its own cache
    rank.facts.host.cores = 8;
    EXPECT_EQ(diagnose_rank(rank).verdict.rule, "storage-bound");
    EXPECT_THAT(diagnose_rank(rank).findings.front().fix.recipe, IsEmpty());
    EXPECT_THAT(diagnose_rank(rank).findings.front().fix.code,
                AllOf(HasSubstr("stoker pack photos "), HasSubstr("  # then train with --set data.train=packed.stk")));
    rank.facts.data.path = "my photos; rm";
    EXPECT_THAT(diagnose_rank(rank).findings.front().fix.code, HasSubstr("stoker pack 'my photos; rm' "));
}

}  // namespace
}  // namespace stoker
