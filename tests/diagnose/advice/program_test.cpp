// What watched programs are told: lines of Python with their place, for torch's DataLoader and for stoker.Loader.
#include <gmock/gmock.h>

#include "diagnose/rules/support.h"
#include "stoker/diagnose/advice/advise.h"

namespace stoker {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// The trainer waits although workers are idle, and nothing explains it.
TEST(ProgramAdvice, FixesNameTheLoaderOfTheProgram) {
    RankRecords rank = watched({.share = {{Phase::wait, 0.6}, {Phase::forward, 0.4}}});
    rank.facts.data.prefetch.reset();
    const auto fix = [&](const char* loader) {
        rank.facts.data.loader = loader;
        const Diagnosis diagnosis = diagnose_rank(rank);
        EXPECT_EQ(diagnosis.verdict.rule, "slow-loader");
        return diagnosis.findings.front().fix.code;
    };
    EXPECT_EQ(fix("DataLoader"), "DataLoader(..., prefetch_factor=4, persistent_workers=True)  # then watch again");
    EXPECT_EQ(fix(""), fix("DataLoader")) << "records of earlier versions";
    EXPECT_EQ(fix("stoker.Loader"), "stoker.Loader(..., prefetch=8)  # then watch again");
}

// The cores are the limit: neither more workers nor more batches ahead help.
TEST(ProgramAdvice, ALoaderThatHasAllCoresIsToldSo) {
    RankRecords rank =
        watched({.share = {{Phase::wait, 0.6}, {Phase::forward, 0.4}}, .process_cores = 2, .busy_share = 1.0});
    rank.facts.data.prefetch.reset();
    rank.facts.data.path = "photos";
    const auto finding = [&](const char* loader) {
        rank.facts.data.loader = loader;
        return diagnose_rank(rank).findings.front();
    };
    ASSERT_EQ(finding("DataLoader").rule, "slow-loader");
    EXPECT_THAT(finding("DataLoader").text, HasSubstr("All cores are busy"));
    EXPECT_THAT(finding("DataLoader").fix.code, HasSubstr("stoker.Loader(\"photos\", ...)"));
    EXPECT_THAT(finding("stoker.Loader").text, HasSubstr("the workers of stoker.Loader are not measured here"));
    EXPECT_THAT(finding("stoker.Loader").fix.code, HasSubstr("the cores are the limit"));
    rank.facts.data.format = "image_folder";
    EXPECT_THAT(finding("stoker.Loader").fix.code, HasSubstr("stoker pack photos packed.stk --codec dct"));
}

// Other processes have the cores; the loader sleeps, so its workers need none.
TEST(ProgramAdvice, WorkersOfALoaderThatSleepsNeedNoCore) {
    const auto text = [](double process_cores) {
        RankRecords rank = watched({.share = {{Phase::wait, 0.6}, {Phase::forward, 0.4}},
                                    .workers = 0,
                                    .process_cores = process_cores,
                                    .busy_share = 1.0});
        const std::vector<Finding> findings = diagnose_rank(rank).findings;
        const auto found = std::ranges::find(findings, "no-workers", &Finding::rule);
        return found == findings.end() ? "" : found->text;
    };
    EXPECT_THAT(text(0.2), AllOf(HasSubstr("worker"), Not(HasSubstr("All cores are busy"))));
    EXPECT_THAT(text(1), HasSubstr("All cores are busy"));
}

TEST(ProgramAdvice, EvaluationsAreCountedInSteps) {
    RankRecords rank = watched({});  // 1000 steps, ten seconds
    for (int i = 0; i < 1000; ++i) {
        EvaluationEntry entry{.step = i};
        entry.host.times[static_cast<std::size_t>(Phase::forward)] = MadeUpRun::nanoseconds_of(0.01);
        rank.evaluations.push_back(entry);
    }
    const Diagnosis diagnosis = diagnose_rank(rank);
    ASSERT_EQ(diagnosis.verdict.rule, "frequent-evaluation");
    EXPECT_EQ(diagnosis.findings.front().fix.code, "if step % 9 == 0: evaluate(model)");
}

TEST(ProgramAdvice, AnEvaluationThatWaitsForBatchesHasASlowLoader) {
    RankRecords rank = watched({});
    rank.facts.train.evaluation_place = "train.py:9";
    rank.facts.train.val_loader_place = "train.py:2";
    rank.facts.train.val_workers = 0;
    for (int i = 0; i < 10; ++i) {
        EvaluationEntry entry{.step = 100 * i};
        entry.host.times[static_cast<std::size_t>(Phase::forward)] = MadeUpRun::nanoseconds_of(0.2);
        entry.host.times[static_cast<std::size_t>(Phase::wait)] = MadeUpRun::nanoseconds_of(0.8);
        rank.evaluations.push_back(entry);
    }
    const Finding waits = diagnose_rank(rank).findings.front();
    ASSERT_EQ(waits.rule, "frequent-evaluation");
    EXPECT_THAT(waits.text, HasSubstr("wait for batches in 80 % of theirs: their loader has no workers"));
    EXPECT_THAT(waits.fix.code, StartsWith("# train.py:2\nDataLoader(..., num_workers=2"));
    rank.facts.train.val_workers.reset();
    EXPECT_THAT(diagnose_rank(rank).findings.front().fix.code, StartsWith("# train.py:9\nif step"));
}

TEST(ProgramAdvice, FixesAreLinesOfPython) {
    const MadeUpRun decodes{.share = {{Phase::wait, 0.5}, {Phase::forward, 0.5}},
                            .stages = {{Stage::pixels, 0.8}, {Stage::augment, 0.2}},
                            .process_cores = 2,
                            .busy_share = 1};
    RankRecords rank = watched(decodes);
    rank.facts.data.decode = "Pillow";
    const Diagnosis diagnosis = diagnose_rank(rank);
    ASSERT_EQ(diagnosis.verdict.rule, "decode-bound");
    EXPECT_THAT(diagnosis.verdict.text, HasSubstr("jpeg images with Pillow takes 80 %"));
    EXPECT_THAT(diagnosis.findings.front().fix.code, HasSubstr("stoker.Loader(\"photos\""));
    for (const Finding& finding : diagnosis.findings) {
        EXPECT_TRUE(finding.fix.recipe.empty()) << finding.rule;
    }
}

// The text and code of a finding.
Finding advised(RankRecords rank, const char* rule, std::int64_t wanted = 0) {
    const RunRecords records{.ranks = {std::move(rank)}};
    Finding finding{.rule = rule,
                    .evidence = {{"wait_share", 0.5},
                                 {"fixed_share", 0.5},
                                 {"read_share_of_workers", 0.5},
                                 {"decode_share_of_workers", 0.5}},
                    .wanted = wanted};
    advise(finding, RunView(records), audience_of(records));
    return finding;
}

TEST(ProgramAdvice, QuotesThePathOfTheData) {
    const auto code_of = [](const char* rule, const std::string& path) {
        RankRecords rank = watched({});
        rank.facts.data.path = path;
        return advised(rank, rule).fix.code;
    };
    EXPECT_THAT(code_of("storage-bound", "my photos"), HasSubstr("stoker pack 'my photos' packed.stk"));
    EXPECT_THAT(code_of("decode-bound", R"(my "photos")"), HasSubstr(R"(stoker.Loader("my \"photos\"", ...))"));
}

TEST(ProgramAdvice, WorkersOfAStreamHaveToDivideIt) {
    const auto workers = [](bool iterable, double busy, const char* loader = "DataLoader") {
        RankRecords rank = watched({.busy_share = busy});
        rank.facts.data.iterable = iterable;
        rank.facts.data.loader = loader;
        return advised(rank, "no-workers");
    };
    EXPECT_THAT(workers(true, 0.5).fix.code, HasSubstr("get_worker_info()"));
    EXPECT_EQ(workers(false, 0.5).fix.code, "DataLoader(..., num_workers=2, persistent_workers=True)");
    EXPECT_NE(workers(false, 0.5).text, workers(true, 0.5).text);
    EXPECT_THAT(workers(false, 1).text, HasSubstr("All cores are busy"));
    EXPECT_EQ(workers(true, 0.5, "stoker.Loader").fix.code, "stoker.Loader(..., workers=2)");
    EXPECT_EQ(workers(true, 0.5, "stoker.Loader").text, workers(false, 0.5).text);
}

TEST(ProgramAdvice, WithoutALoaderTheBatchIsTheProgramsOwn) {
    RankRecords rank = watched({});
    rank.facts.data.loader = "DataLoader";
    EXPECT_THAT(advised(rank, "small-batch", 32).fix.code, HasSubstr("DataLoader(..., batch_size=32)"));
    rank.facts.data.loader = "";
    EXPECT_THAT(advised(rank, "small-batch", 32).fix.code, StartsWith("batch_size = 32 "));
}

TEST(ProgramAdvice, ABatchIsThatOfOneProcess) {
    RankRecords rank = watched({});
    rank.facts.world_size = 2;
    EXPECT_THAT(advised(rank, "small-batch", 256).fix.code, HasSubstr("128  # in each process"));
}

TEST(ProgramAdvice, NameTheLineToChange) {
    RankRecords rank = watched({.share = {{Phase::wait, 0.5}, {Phase::forward, 0.5}}, .workers = 0});
    rank.facts.data.place = "train.py:41";
    const auto found = found_in({.ranks = {rank}}, "no-workers");
    ASSERT_TRUE(found);
    EXPECT_THAT(found->fix.code, StartsWith("# train.py:41\nDataLoader("));
    rank.facts.data.place.clear();
    EXPECT_THAT(found_in({.ranks = {rank}}, "no-workers")->fix.code, StartsWith("DataLoader("));
}

TEST(ProgramAdvice, StokersLoaderIsOfferedWhereItGivesMore) {
    RankRecords rank = watched({.share = {{Phase::wait, 0.5}, {Phase::forward, 0.5}}, .workers = 0});
    const auto found = [&] { return *found_in({.ranks = {rank}}, "no-workers"); };
    EXPECT_THAT(found().fix.code, Not(HasSubstr("stoker.Loader("))) << "not measured";
    rank.facts.data.stoker_samples_per_second = 20'000;  // the program trains 64 in 10 ms
    EXPECT_THAT(found().text, AllOf(HasSubstr(" 20000 "), HasSubstr(" 6400,"), HasSubstr(" 7805 ")));
    const Gain workers = found().gain;
    EXPECT_THAT(found().fix.code, AllOf(HasSubstr("DataLoader(..., num_workers"),
                                        HasSubstr("stoker.Loader(\"photos\", batch_size=64, as_tuple=True")));
    EXPECT_GT(workers.expected, 7805.0 / 6400);
    rank.facts.data.stoker_samples_per_second = 2e6;  // what gives more comes first, with its gain
    EXPECT_THAT(found().fix.code, StartsWith("import stoker\nloader = stoker.Loader(\"photos\""));
    EXPECT_THAT(found().fix.code, HasSubstr("# or only this, which gains less:\nDataLoader("));
    rank.facts.data.shuffle = false;
    rank.facts.data.drop_last = true;
    EXPECT_THAT(found().fix.code, HasSubstr("as_tuple=True, shuffle=False, drop_last=True,\n"));
    EXPECT_NEAR(found().gain.expected, 2, 0.02);
    EXPECT_LE(found().gain.high, 2);
    rank.evaluations.push_back({.step = 1000});
    rank.evaluations.back().host.times[static_cast<std::size_t>(Phase::forward)] = std::chrono::seconds(10);
    EXPECT_NEAR(found().gain.expected, 1 / (1 - 0.5 * 0.5), 0.02) << "half of the run are steps";
    rank.facts.data.stoker_samples_per_second = 7'000;
    EXPECT_THAT(found().fix.code, Not(HasSubstr("stoker.Loader("))) << "little more";
}

// More workers gain little there. A loader that needs less CPU time still gains.
TEST(ProgramAdvice, StokersLoaderIsAWarningWhereAllCoresAreBusy) {
    RankRecords rank =
        watched({.share = {{Phase::wait, 0.7}, {Phase::forward, 0.3}}, .workers = 0, .cores = 1, .busy_share = 1});
    EXPECT_LT(found_in({.ranks = {rank}}, "no-workers")->gain.expected, 1.05);
    rank.facts.data.stoker_samples_per_second = 2e6;
    const Finding finding = *found_in({.ranks = {rank}}, "no-workers");
    EXPECT_GT(finding.gain.expected, 2);
    EXPECT_EQ(finding.severity, Severity::warn);
    EXPECT_EQ(diagnose_rank(rank).verdict.rule, "no-workers");
}

}  // namespace
}  // namespace stoker
