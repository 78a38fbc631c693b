// Records survive being written as lines and read back, and damaged lines do no harm.
#include "stoker/records/record_reader.h"

#include <cmath>
#include <fmt/format.h>
#include <fstream>
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>
#include <string>

#include "stoker/records/line_file.h"
#include "stoker/records/record_writer.h"
#include "support/temp_dir.h"

namespace stoker {
namespace {

using nlohmann::json;
using std::chrono::microseconds;

StepRecord waited(int us) {
    StepRecord record;
    record.times[static_cast<std::size_t>(Phase::wait)] = microseconds(us);
    return record;
}

std::string add_record(std::string_view line, RunRecords& records) {
    return RecordCollector(records).add(line);
}

TEST(Records, FactsComeBack) {
    const RunFacts facts{
        .writer = "stoker",
        .rank = 1,
        .world_size = 2,
        .host = {.cores = 1.5, .ranks = 2, .memory_bytes = 1 << 30},
        .device = {.type = "cuda", .name = "H100", .tensor_cores = true, .bf16_speedup = 4.5, .half_speedup = 0.25},
        .data = {.path = "photos", .codec = "jpeg", .samples = 10, .workers = 0},
        .train = {.model = "mlp", .batch_size = 64, .compiled = "fused"}};
    RunRecords records;
    ASSERT_EQ(add_record(to_json_line(facts, 5), records), "");
    const RunFacts& read = records.ranks.at(0).facts;
    EXPECT_EQ(read.rank, 1);
    EXPECT_EQ(read.world_size, 2);
    EXPECT_EQ(read.host.cores, 1.5);
    EXPECT_EQ(read.host.memory_bytes, 1 << 30);
    EXPECT_EQ(read.device.tensor_cores, true);
    EXPECT_EQ(read.device.bf16_speedup, 4.5);
    EXPECT_EQ(read.device.half_speedup, 0.25);
    EXPECT_EQ(read.data.workers, 0);
    EXPECT_EQ(read.data.prefetch, std::nullopt) << "not measured is not 0";
    EXPECT_EQ(read.train.compiled, "fused");
    EXPECT_EQ(json::parse(to_json_line(facts, 5))["step"], 5);
    EXPECT_FALSE(json::parse(to_json_line(facts, 5))["data"].contains("prefetch"));
}

TEST(Records, UnmeasuredTimeOfWorkersIsLeftOut) {
    IntervalEntry interval{.first_step = 1, .last_step = 50, .seconds = 0.5};
    interval.workers.emplace();
    EXPECT_FALSE(json::parse(to_json_line(interval, 0))["workers_us"].contains("cpu"));
    interval.workers->cpu = microseconds(3);
    EXPECT_EQ(json::parse(to_json_line(interval, 0))["workers_us"]["cpu"], 3);
}

TEST(Records, ImagesThatADeviceDecodesAreCountedWhereThereAreSome) {
    IntervalEntry interval{.first_step = 1, .last_step = 50, .seconds = 0.5};
    interval.workers.emplace().samples = 7;
    EXPECT_FALSE(json::parse(to_json_line(interval, 0))["workers_us"].contains("on_device"));
    interval.workers->on_device = 5;
    RunRecords records;
    ASSERT_EQ(add_record(to_json_line(interval, 0), records), "");
    EXPECT_EQ(records.ranks.at(0).intervals.at(0).workers->on_device, 5);
}

TEST(StageTimes, BlockedLastsNoLongerThanTheWorkersHad) {
    StageTimes times;
    times[Stage::read] = microseconds(30);
    times[Stage::blocked] = microseconds(900);
    times.limit_blocked(microseconds(100));
    EXPECT_EQ(times[Stage::blocked], microseconds(70));
    times.limit_blocked(microseconds(20));
    EXPECT_EQ(times[Stage::blocked], microseconds(0));
}

TEST(Records, IntervalsComeBackForTheirRanks) {
    IntervalEntry interval{.first_step = 1, .last_step = 50, .seconds = 0.5, .host = waited(70)};
    interval.workers.emplace().times[static_cast<std::size_t>(Stage::entropy)] = microseconds(9);
    interval.syncs = {{.place = "losses", .count = 2, .us = 3}};
    interval.after_us = 2;
    interval.lines = {{.place = "train.py:3", .per_step = 500, .us = 40}, {.place = "train.py:9", .us = 20}};
    interval.start_us = 11;
    interval.core_wait_us = 12;
    interval.busy_share = 0.25;
    interval.gpu_done_us = 120;
    interval.gpu_busy_us = 400;
    interval.gpu_celsius = 84;
    interval.gpu_clock_share = 0.75;
    interval.gpu_clock_limit = "temperature";
    RunRecords records;
    ASSERT_EQ(add_record(to_json_line(interval, 1), records), "");
    interval.busy_share = interval.after_us = std::nullopt;
    ASSERT_EQ(add_record(to_json_line(interval, 0), records), "");
    ASSERT_EQ(records.ranks.size(), 2U);
    EXPECT_EQ(records.ranks[0].facts.rank, 0);
    const IntervalEntry& read = records.ranks[1].intervals.at(0);
    EXPECT_EQ(read.last_step, 50);
    EXPECT_EQ(read.host.times, interval.host.times);
    EXPECT_EQ((*read.workers)[Stage::entropy], microseconds(9));
    EXPECT_EQ(read.syncs.at(0).place, "losses");
    EXPECT_EQ(read.after_us, 2);
    EXPECT_EQ(read.lines.at(0).per_step, 500);
    EXPECT_EQ(read.lines.at(1).place, "train.py:9");
    EXPECT_EQ(read.lines.at(1).per_step, std::nullopt);
    EXPECT_EQ(read.start_us, 11);
    EXPECT_EQ(read.core_wait_us, 12);
    EXPECT_EQ(read.gpu_done_us, 120);
    EXPECT_EQ(read.gpu_busy_us, 400);
    EXPECT_EQ(read.gpu_celsius, 84);
    EXPECT_EQ(read.gpu_clock_share, 0.75);
    EXPECT_EQ(read.gpu_clock_limit, "temperature");
    EXPECT_EQ(read.busy_share, 0.25);
    EXPECT_EQ(records.ranks[0].intervals.at(0).after_us, std::nullopt);
    EXPECT_EQ(records.ranks[0].intervals.at(0).busy_share, std::nullopt);
}

TEST(Records, EvaluationsComeBack) {
    RunRecords records;
    const EvaluationEntry entry{.step = 9, .samples = 100, .host = waited(4)};
    ASSERT_EQ(add_record(to_json_line(entry, 0), records), "");
    EXPECT_EQ(records.ranks.at(0).evaluations.at(0).samples, 100);
    EXPECT_EQ(records.ranks[0].evaluations[0].host.times, entry.host.times);
    EXPECT_FALSE(records.ranks[0].evaluations[0].workers);
}

TEST(Records, StepsAreRead) {
    RunRecords records;
    const std::string line =
        R"({"type":"step","schema":1,"step":3,"epoch":1,"samples":8,"loss":null,"us":{"wait":5,"new":1},"ready":2})";
    ASSERT_EQ(add_record(line, records), "");
    const StepEntry& step = records.ranks.at(0).steps.at(0);
    EXPECT_EQ(step.step, 3);
    EXPECT_EQ(step.samples, 8);
    EXPECT_EQ(step.ready, 2);
    EXPECT_EQ(step.copy_bytes, std::nullopt);
    EXPECT_EQ(step.host.total(), microseconds(5));
}

TEST(Records, StepsComeBack) {
    const StepEntry step{.step = 3,
                         .epoch = 1,
                         .samples = 8,
                         .host = waited(5),
                         .ready = 2,
                         .copy_bytes = 9,
                         .loss = std::nan(""),
                         .lr = 1,
                         .batch_hash = 0xfedcba9876543210};
    const std::string line = to_json_line(step);
    EXPECT_EQ(line, R"({"type":"step","schema":1,"step":3,"epoch":1,"samples":8,"loss":null,"lr":1,)"
                    R"("batch_hash":"fedcba9876543210","ready":2,"copy_bytes":9,"us":{"wait":5}})");
    const RecordLine record = RecordReader{"step"}.read(line);
    EXPECT_TRUE(record.complete);
    const StepEntry& read = std::get<StepEntry>(record.entry);
    EXPECT_EQ(to_json_line(read), line);
    EXPECT_TRUE(std::isnan(*read.loss)) << "JSON has no NaN";
    EXPECT_FALSE(json::parse(to_json_line(StepEntry{.step = 1})).contains("loss"));
}

TEST(Records, EpochsComeBack) {
    const EpochEntry epoch{.epoch = 2,
                           .step = 6,
                           .seconds = 2,
                           .images_per_second = 100,
                           .train_loss = std::nan(""),
                           .val_loss = 0.75,
                           .val_metrics = {{"mae", 0.5}, {"r\"2", std::nan("")}},
                           .val_metric = "mae",
                           .higher_is_better = false,
                           .bad_samples = 1,
                           .bubble = Bubble{.formula = 0.25, .stages = {0.5, 1}}};
    const std::string line = to_json_line(epoch);
    EXPECT_EQ(
        line,
        R"({"type":"epoch","schema":1,"step":6,"epoch":2,"seconds":2.0,"images_per_second":100.0,)"
        R"("train_loss":null,"val_loss":0.75,"val_accuracy":null,"val_top5_accuracy":null,"bad_samples":1,)"
        R"("val_bad_samples":0,"val_metric":"mae","higher_is_better":false,"val_metrics":{"mae":0.5,"r\"2":null},)"
        R"("bubble":{"formula":0.25,"stages":[0.5,1.0]}})");
    const RecordLine record = RecordReader{"epoch"}.read(line);
    EXPECT_TRUE(record.complete);
    EXPECT_EQ(to_json_line(std::get<EpochEntry>(record.entry)), line);
    EXPECT_EQ(json::parse(to_json(epoch))["epoch"], 2);
    EXPECT_FALSE(json::parse(to_json(epoch)).contains("step"));
}

TEST(Records, TheOrderOfKeysIsFree) {
    const std::string line =
        R"({ "us": {"wait": 5}, "epoch": 1, "step": 3, "schema": 1, "samples": 8, "type": "step", "loss": 0.5 })";
    EXPECT_TRUE(seems_of_type(line, "step"));
    EXPECT_FALSE(seems_of_type(line, "epoch"));
    EXPECT_FALSE(seems_of_type(line, "st"));
    const RecordLine record = RecordReader{"step"}.read(line);
    EXPECT_EQ(record.step, 3);
    EXPECT_EQ(std::get<StepEntry>(record.entry).loss, 0.5);
    EXPECT_EQ(std::get<StepEntry>(record.entry).host.total(), microseconds(5));
}

TEST(Records, HalfALineIsNoRecord) {
    const std::string line = to_json_line(StepEntry{.step = 3, .epoch = 1, .samples = 8, .host = waited(5)});
    RecordReader reader{"step"};
    for (std::size_t size = 0; size < line.size(); ++size) {
        EXPECT_NE(reader.read(line.substr(0, size)).problem, "") << size;
    }
    EXPECT_EQ(reader.read(line).problem, "");
}

TEST(Records, OfOtherTypesOnlyTheHeadIsRead) {
    const RecordLine record = RecordReader{"step"}.read(R"({"type":"epoch","schema":7,"step":4,"rank":2})");
    EXPECT_EQ(record.problem, "");
    EXPECT_EQ(record.type, "epoch");
    EXPECT_EQ(record.step, 4);
    EXPECT_EQ(record.rank, 2);
    EXPECT_EQ(record.entry.index(), 0U);
}

TEST(Records, ValuesThatAreMissingOrWrongAreSaid) {
    RecordReader reader{"step", "epoch"};
    for (const char* line :
         {R"({"type":"step","schema":1,"step":1})", R"({"type":"step","schema":1,"step":-1,"epoch":1})",
          R"({"type":"step","schema":1,"step":1,"epoch":1,"loss":"x"})",
          R"({"type":"step","schema":1,"step":1,"epoch":1,"us":[]})",
          R"({"type":"epoch","schema":1,"epoch":1,"seconds":1,"images_per_second":1,"train_loss":1})"}) {
        const RecordLine record = reader.read(line);
        EXPECT_EQ(record.problem, "");
        EXPECT_FALSE(record.complete) << line;
    }
}

TEST(Records, LinesOfAFileThatGrows) {
    const stoker::testing::TempDir folder;
    const auto path = folder / "metrics.jsonl";
    std::uint64_t begin = 0;
    std::vector<std::string> lines;
    const auto grow = [&](const char* text) {
        std::ofstream(path, std::ios::app) << text;
        const auto take = [&](std::string_view line, std::uint64_t offset) {
            lines.emplace_back(line);
            begin = offset + line.size() + 1;
        };
        return for_each_line(path, take, begin);
    };
    EXPECT_EQ(grow("one\ntwo\nthr"), "thr");
    EXPECT_EQ(grow(""), "thr");
    EXPECT_EQ(grow("ee\n"), "");
    EXPECT_EQ(grow("four\n"), "");
    EXPECT_THAT(lines, ::testing::ElementsAre("one", "two", "three", "four"));
}

TEST(Records, ProfiledStepsAreMarkedAndNotRead) {
    RunRecords records;
    const std::string step = R"({"type":"step","schema":1,"step":1,"us":{"wait":5.0}})";
    const std::string evaluation = to_json_line(EvaluationEntry{.step = 1, .host = waited(4)}, 0);
    EXPECT_EQ(marked_as_profiled(step), R"({"type":"step","schema":1,"step":1,"us":{"wait":5.0},"profiled":true})");
    EXPECT_EQ(add_record(marked_as_profiled(step), records), "");
    EXPECT_EQ(add_record(marked_as_profiled(evaluation), records), "");
    EXPECT_TRUE(records.ranks.at(0).steps.empty());
    EXPECT_TRUE(records.ranks[0].evaluations.empty());
}

TEST(Records, OfStepsToldTwiceTheLaterHolds) {
    RunRecords records;
    for (const int step : {1, 2, 3, 2}) {
        EXPECT_EQ(add_record(to_json_line(StepEntry{.step = step}), records), "");
    }
    EXPECT_EQ(records.ranks.at(0).steps.size(), 2U);
}

TEST(Records, OtherTypesAreSkippedAndOtherTextIsNot) {
    RunRecords records;
    EXPECT_EQ(add_record(R"({"type":"epoch","schema":7})", records), "");
    EXPECT_TRUE(records.ranks.empty());
    EXPECT_NE(add_record("", records), "");
    EXPECT_NE(add_record("[1]", records), "");
    EXPECT_NE(add_record(R"({"type":"step","schema":2})", records), "");
}

TEST(Records, WrongTypesAndHugeNumbersDoNoHarm) {
    for (const char* line : {R"({"type":"step","schema":1,"step":"x","us":[1],"ready":1.5})",
                             R"({"type":"step","schema":1,"step":1,"us":{"wait":1e300,"copy":-1e300}})",
                             R"({"type":"interval","schema":1,"workers_us":3,"syncs":[1,{"us":"x"}],"seconds":{}})",
                             R"({"type":"facts","schema":1,"rank":1,"host":7,"data":{"workers":"many"}})"}) {
        RunRecords records;
        EXPECT_EQ(add_record(line, records), "") << line;
        EXPECT_EQ(records.ranks.size(), 1U);
    }
    RunRecords damaged;
    const char* step = R"({"type":"step","schema":1,"step":9223372036854775807,"epoch":-9223372036854775807})";
    ASSERT_EQ(add_record(step, damaged), "");
    const char* interval = R"({"type":"interval","schema":1,"first_step":-9223372036854775807,
        "last_step":9223372036854775807,"workers_us":{"samples":9223372036854775807}})";
    ASSERT_EQ(add_record(interval, damaged), "");
    constexpr std::int64_t kMost = std::int64_t{1} << 40;  // millions of them have a sum
    EXPECT_EQ(damaged.ranks.at(0).steps.at(0).step, kMost);
    EXPECT_EQ(damaged.ranks[0].steps[0].epoch, 0);
    EXPECT_EQ(damaged.ranks[0].intervals.at(0).first_step, 0);
    EXPECT_EQ(damaged.ranks[0].intervals[0].last_step, kMost);
    EXPECT_EQ(damaged.ranks[0].intervals[0].workers->samples, kMost);
    const std::string deep = std::string(200'000, '[') + std::string(200'000, ']');
    EXPECT_NE(add_record(R"({"type":"facts","schema":1,"host":)" + deep + "}", damaged), "");
    for (const char* rank : {"-1", "100000"}) {
        RunRecords records;
        EXPECT_NE(add_record(R"({"type":"facts","schema":1,"rank":)" + std::string(rank) + "}", records), "") << rank;
    }
}

}  // namespace
}  // namespace stoker
