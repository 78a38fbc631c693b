// Records of run folders: steps of the ranks that write none, and damaged lines.
#include "stoker/diagnose/run_reader.h"

#include <fmt/format.h>
#include <fstream>
#include <gmock/gmock.h>
#include <string>

#include "stoker/diagnose/costly_calls.h"
#include "support/temp_dir.h"

namespace stoker {
namespace {

using ::testing::HasSubstr;

std::string step_line(int step) {
    return fmt::format(R"({{"type":"step","schema":1,"step":{},"us":{{"forward":1000}}}})", step) + "\n";
}

std::string interval_line(int rank, const std::string& first, const std::string& last) {
    return fmt::format(
               R"({{"type":"interval","schema":1,"rank":{},"first_step":{},"last_step":{},"us":{{"wait":6000}}}})",
               rank, first, last) +
           "\n";
}

RunRecords read(const std::string& lines) {
    const stoker::testing::TempDir folder;
    std::ofstream(folder.path() / "metrics.jsonl") << lines;
    std::ofstream(folder.path() / "recipe.toml") << "";
    return read_run_records(folder.path());
}

TEST(RunReader, TheStepsOfOtherRanksAreMeans) {
    const RunRecords records = read(step_line(1) + step_line(2) + step_line(3) + interval_line(1, "1", "3"));
    ASSERT_EQ(records.ranks.size(), 2U);
    ASSERT_EQ(records.ranks[1].steps.size(), 3U);
    EXPECT_EQ(records.ranks[1].steps[2].step, 3);
    EXPECT_EQ(records.ranks[1].steps[2].host.total(), std::chrono::microseconds(2000));
}

TEST(RunReader, FunctionsOfAPythonProgram) {
    const RunRecords records = read(
        step_line(1) + R"({"type":"functions","schema":1,"rank":0,"steps":3,"functions":[)"
                       R"({"name":"step","place":"train.py:7","count":3,"self_us":10,"total_us":30},)"
                       R"({"name":"built-in method torch.conv2d","count":-6,"self_us":20,"total_us":20},"no object"]})"
                       "\n");
    const RankRecords& rank = records.ranks.front();
    ASSERT_TRUE(rank.functions);
    EXPECT_EQ(rank.functions->steps, 3);
    const std::vector<FunctionEntry> costly = costly_functions(rank, 5);
    ASSERT_EQ(costly.size(), 2U);
    EXPECT_EQ(costly[0].name, "built-in method torch.conv2d") << "the largest self time comes first";
    EXPECT_EQ(costly[0].count, 0);
    EXPECT_EQ(costly[1].place, "train.py:7");
    EXPECT_EQ(costly[1].total_us, 30);
    EXPECT_EQ(costly_functions(rank, 1).size(), 1U);
}

TEST(RunReader, ADamagedIntervalTakesNoMemory) {
    const std::string most = "9223372036854775807";
    for (const std::string& first : {std::string("1"), std::string("-9223372036854775808"), most}) {
        const RunRecords records =
            read(step_line(1) + step_line(2) + interval_line(1, first, most) + interval_line(2, "1", "900000") +
                 interval_line(2, "1", "900000") + interval_line(3, most, first));
        ASSERT_EQ(records.ranks.size(), 4U);
        EXPECT_LE(records.ranks[1].steps.size(), 2U);
        EXPECT_LE(records.ranks[2].steps.capacity(), 4U) << "no rank has more steps than rank 0";
    }
}

TEST(RunReader, RecordsOfAPythonProgramNeedNoRecipe) {
    const stoker::testing::TempDir folder;
    const auto problems = [&](const std::string& writer) {
        std::ofstream(folder.path() / "metrics.jsonl")
            << step_line(1) << R"({"type":"facts","schema":1,"writer":")" << writer << "\"}\n";
        return read_run_records(folder.path()).problems.size();
    };
    EXPECT_EQ(problems("torch"), 0U);
    EXPECT_EQ(problems("stoker"), 1U);
}

// A resumed run that was killed, or still runs, has the account of the process before.
TEST(RunReader, AnAccountOfAnEarlierStepIsNotTheRuns) {
    const stoker::testing::TempDir folder;
    std::ofstream(folder.path() / "metrics.jsonl") << step_line(1) + step_line(2) + step_line(3);
    const auto total = [&](const std::string& steps) {
        std::ofstream(folder.path() / "account.json") << "{" << steps << R"("account":{"seconds":2,"forward":0.5}})";
        return read_run_records(folder.path()).ranks.front().total;
    };
    EXPECT_FALSE(total(R"("steps":2,)"));
    for (const char* current : {R"("steps":3,)", ""}) {
        const std::optional<StepRecord> found = total(current);
        ASSERT_TRUE(found);
        EXPECT_EQ(found->total(), std::chrono::seconds(1));
    }
}

TEST(RunReader, TooManyStepsAreAProblem) {
    const RunRecords records = read(interval_line(0, "1", "3000000"));
    EXPECT_EQ(records.ranks[0].steps.size(), 2'000'000U);
    ASSERT_FALSE(records.problems.empty());
    EXPECT_THAT(records.problems[0], HasSubstr("too many steps"));
}

}  // namespace
}  // namespace stoker
