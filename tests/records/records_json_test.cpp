// Records survive being written as lines and read back, and damaged lines do no harm.
#include "stoker/records/records_json.h"

#include <gmock/gmock.h>
#include <string>

namespace stoker {
namespace {

using std::chrono::microseconds;

StepRecord waited(int us) {
    StepRecord record;
    record.times[static_cast<std::size_t>(Phase::wait)] = microseconds(us);
    return record;
}

TEST(RecordsJson, FactsComeBack) {
    const RunFacts facts{
        .writer = "stoker",
        .rank = 1,
        .world_size = 2,
        .software = {.torch = "2.11.0"},
        .host = {.cores = 1.5, .ranks = 2, .memory_bytes = 1 << 30, .processor = "EPYC"},
        .device = {.type = "cuda", .name = "H100", .tensor_cores = true, .bf16_speedup = 4.5, .half_speedup = 0.25},
        .data = {.path = "photos", .codec = "jpeg", .samples = 10, .workers = 0},
        .train = {.model = "mlp", .batch_size = 64, .compiled = "fused"}};
    RunRecords records;
    ASSERT_EQ(add_record(to_json_line(facts, 5), records), "");
    const RunFacts& read = records.ranks.at(0).facts;
    EXPECT_EQ(read.rank, 1);
    EXPECT_EQ(read.software.torch, "2.11.0");
    EXPECT_EQ(read.host.memory_bytes, 1 << 30);
    EXPECT_EQ(read.host.processor, "EPYC");
    EXPECT_EQ(read.device.bf16_speedup, 4.5);
    EXPECT_EQ(read.data.workers, 0);
    EXPECT_EQ(read.data.prefetch, std::nullopt) << "not measured is not 0";
    EXPECT_EQ(read.train.compiled, "fused");
    EXPECT_EQ(
        to_json_line(facts, 5),
        R"({"type":"facts","schema":1,"step":5,"writer":"stoker","rank":1,"world_size":2,)"
        R"("software":{"torch":"2.11.0"},"host":{"cores":1.5,"ranks":2,"memory_bytes":1073741824,"processor":"EPYC"},)"
        R"("device":{"type":"cuda","name":"H100","count":1,"tensor_cores":true,)"
        R"("bf16_speedup":4.5,"half_speedup":0.25},"data":{"path":"photos","codec":"jpeg","samples":10,"workers":0},)"
        R"("train":{"model":"mlp","batch_size":64,"compiled":"fused"}})");
}

TEST(RecordsJson, UnmeasuredTimeOfWorkersIsLeftOut) {
    IntervalEntry interval{.first_step = 1, .last_step = 50, .seconds = 0.5};
    interval.workers.emplace().samples = 7;
    EXPECT_EQ(to_json_line(interval, 0),
              R"({"type":"interval","schema":1,"step":50,"rank":0,"first_step":1,"last_step":50,"seconds":0.5,"us":{},)"
              R"("workers_us":{"samples":7,"read":0.0,"entropy":0.0,"pixels":0.0,"augment":0.0,"blocked":0.0}})");
    interval.workers->on_device = 5;
    interval.workers->cpu = microseconds(3);
    RunRecords records;
    ASSERT_EQ(add_record(to_json_line(interval, 0), records), "");
    EXPECT_EQ(records.ranks.at(0).intervals.at(0).workers->on_device, 5);
    EXPECT_EQ(records.ranks[0].intervals[0].workers->cpu, microseconds(3));
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

TEST(RecordsJson, IntervalsComeBackForTheirRanks) {
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

TEST(RecordsJson, EvaluationsComeBack) {
    RunRecords records;
    const EvaluationEntry entry{.step = 9, .samples = 100, .host = waited(4)};
    ASSERT_EQ(add_record(to_json_line(entry, 0), records), "");
    EXPECT_EQ(records.ranks.at(0).evaluations.at(0).samples, 100);
    EXPECT_EQ(records.ranks[0].evaluations[0].host.times, entry.host.times);
    EXPECT_FALSE(records.ranks[0].evaluations[0].workers);
}

TEST(RecordsJson, StepsAreRead) {
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

TEST(RecordsJson, EpochsComeBack) {
    const std::string line =
        R"({"type":"epoch","schema":1,"step":6,"epoch":2,"seconds":2.0,"images_per_second":100.0,"train_loss":null,)"
        R"("val_loss":0.75,"val_accuracy":null,"val_top5_accuracy":null,"bad_samples":1,"val_bad_samples":0,)"
        R"("val_metric":"mae","higher_is_better":false,"val_metrics":{"mae":0.5,"r\"2":null},)"
        R"("bubble":{"formula":0.25,"stages":[0.5,1.0]}})";
    EXPECT_EQ(to_json_line(std::get<EpochResult>(read_record(line, {"epoch"}).entry)), line);
}

TEST(RecordsJson, ProfiledStepsAreMarkedAndNotRead) {
    RunRecords records;
    EXPECT_EQ(add_record(marked_as_profiled(to_json_line(StepEntry{.step = 1}, 0)), records), "");
    EXPECT_EQ(add_record(to_json_line(StepEntry{.step = 2}, 0), records), "");
    EXPECT_EQ(add_record(marked_as_profiled(to_json_line(EvaluationEntry{.step = 2}, 0)), records), "");
    ASSERT_EQ(records.ranks.at(0).steps.size(), 1U);
    EXPECT_EQ(records.ranks[0].steps[0].step, 2);
    EXPECT_TRUE(records.ranks[0].evaluations.empty());
}

TEST(RecordsJson, OtherTypesAreSkippedAndOtherTextIsNot) {
    RunRecords records;
    EXPECT_EQ(add_record(R"({"type":"epoch","schema":7})", records), "");
    EXPECT_TRUE(records.ranks.empty());
    EXPECT_NE(add_record("", records), "");
    EXPECT_NE(add_record("[1]", records), "");
    EXPECT_NE(add_record(R"({"type":"step","schema":2})", records), "");
}

TEST(RecordsJson, WrongTypesAndHugeNumbersDoNoHarm) {
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
