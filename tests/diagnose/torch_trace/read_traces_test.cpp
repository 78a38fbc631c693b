// Records of traces. data/two_streams.json is made by hand; its numbers are worked out here, and HTA 0.5 gives the same
// for the GPU (bench/hta_parity.py tests/diagnose/data).
#include "stoker/diagnose/torch_trace/read_traces.h"

#include <algorithm>
#include <array>
#include <ctime>
#include <fstream>
#include <gmock/gmock.h>
#include <iterator>
#include <map>
#include <string>

#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/diagnose/costly_calls.h"
#include "stoker/diagnose/diagnose.h"
#include "stoker/diagnose/rules/run_summary.h"
#include "stoker/diagnose/torch_trace/device_profile.h"
#include "stoker/diagnose/torch_trace/gpu_breakdown.h"
#include "stoker/diagnose/torch_trace/merge_parts.h"
#include "stoker/diagnose/torch_trace/trace_file.h"
#include "support/paths.h"
#include "support/temp_dir.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const fs::path kTwoStreams = testing::source_dir() / "tests/diagnose/data/two_streams.json";

double us(const PhaseTimes& times, Phase phase) {
    return std::chrono::duration<double, std::micro>(times[static_cast<std::size_t>(phase)]).count();
}

RankRecords two_streams() {
    return rank_records(read_trace_file(kTwoStreams));
}

// An event of category `cat` on a thread, in microseconds.
std::string event(const std::string& cat, const std::string& name, double start, double duration, int thread = 1,
                  const std::string& arguments = "") {
    return R"({"ph":"X","cat":")" + cat + R"(","name":")" + name + R"(","pid":1,"tid":)" + std::to_string(thread) +
           R"(,"ts":)" + std::to_string(start) + R"(,"dur":)" + std::to_string(duration) + R"(,"args":{)" + arguments +
           "}}";
}

RankRecords records_of(const std::vector<std::string>& events) {
    std::string text = R"({"traceEvents": [)";
    for (const std::string& one : events) {
        text += (&one == &events.front() ? "" : ",") + one;
    }
    return rank_records(read_trace_bytes(as_bytes(text + "]}"), "made"));
}

TEST(ReadTraces, TheGpusTimeIsHtas) {
    const GpuTimes gpu = two_streams().profile->gpu->hta;
    // The span is 1120 to 1860. Kernels compute for 100 + 50 + 300 us. Work covers 20 + 100 + 50 + 340 + 10 us.
    EXPECT_DOUBLE_EQ(gpu.compute_us, 450);
    EXPECT_DOUBLE_EQ(gpu.idle_us, 220);
    EXPECT_DOUBLE_EQ(gpu.non_compute_us, 70);
    ASSERT_EQ(gpu.idle.size(), 2u);
    EXPECT_EQ(gpu.idle[0].stream, 7);
    EXPECT_DOUBLE_EQ(gpu.idle[0].host_wait_us, 80 + 80 + 90);
    EXPECT_DOUBLE_EQ(gpu.idle[0].kernel_wait_us, 10);
    EXPECT_DOUBLE_EQ(gpu.idle[0].other_us, 0);
    EXPECT_EQ(gpu.idle[1].stream, 20);
    EXPECT_DOUBLE_EQ(gpu.idle[1].host_wait_us, 0);
}

TEST(ReadTraces, TheGpusTimeIsThatOfTheSteps) {
    const GpuEntry gpu = *two_streams().profile->gpu;
    // In the step from 1000 to 2000, 120 us before the first work and 140 us after the last are also idle.
    EXPECT_DOUBLE_EQ(gpu.times.span_us(), 1000);
    EXPECT_DOUBLE_EQ(gpu.times.compute_us, 450);
    EXPECT_DOUBLE_EQ(gpu.times.idle_us, 220 + 120 + 140);
    EXPECT_DOUBLE_EQ(gpu.times.non_compute_us, 70);
    EXPECT_DOUBLE_EQ(gpu.times.idle.at(0).host_wait_us, 80 + 80 + 90);
    EXPECT_EQ(gpu.kernels, 4);
    EXPECT_DOUBLE_EQ(gpu.kernel_us, 550);
    EXPECT_DOUBLE_EQ(gpu.tensor_core_us, 300);
    EXPECT_DOUBLE_EQ(*gpu.launch_delay_us, 10);  // 10, 105, 10
}

TEST(ReadTraces, ThePhasesOfAStepSumToTheWhole) {
    const RankRecords rank = two_streams();
    ASSERT_EQ(rank.steps.size(), 1u);
    EXPECT_EQ(rank.steps[0].step, 7);
    const PhaseTimes& times = rank.steps[0].host.times;
    EXPECT_DOUBLE_EQ(us(times, Phase::wait), 100);
    EXPECT_DOUBLE_EQ(us(times, Phase::copy), 50);
    EXPECT_DOUBLE_EQ(us(times, Phase::forward), 200);  // from aten::mm to the backward pass
    EXPECT_DOUBLE_EQ(us(times, Phase::backward), 200);
    EXPECT_DOUBLE_EQ(us(times, Phase::optimizer), 100);
    EXPECT_DOUBLE_EQ(us(times, Phase::sync), 150);  // all of aten::item
    EXPECT_DOUBLE_EQ(us(times, Phase::unmeasured), 200);
    EXPECT_EQ(rank.steps[0].host.total(), std::chrono::microseconds(1000));
}

TEST(ReadTraces, CopiesWaitsAndCollectives) {
    const RankRecords rank = two_streams();
    const ProfileEntry& profile = *rank.profile;
    ASSERT_EQ(profile.copies.size(), 2u);
    EXPECT_EQ(profile.copies[1].kind, "HtoD");
    EXPECT_TRUE(profile.copies[1].pageable);
    EXPECT_EQ(profile.copies[1].bytes, 4096);
    EXPECT_DOUBLE_EQ(profile.copies[1].overlapped_us, 0);
    // One wait in two calls. The copy to the device blocks too, but belongs to the copy.
    ASSERT_EQ(profile.syncs.size(), 1u);
    EXPECT_EQ(profile.syncs[0].place, "aten::item");
    EXPECT_EQ(profile.syncs[0].count, 1);
    EXPECT_DOUBLE_EQ(profile.syncs[0].us, 130);
    ASSERT_EQ(profile.collectives.size(), 1u);
    EXPECT_EQ(profile.collectives[0].name, "nccl:all_reduce");
    EXPECT_DOUBLE_EQ(profile.collectives[0].us, 100);
    EXPECT_DOUBLE_EQ(profile.collectives[0].exposed_us, 40);  // from 1760 on nothing computes
    // The gaps 1000-1120, 1140-1220, 1320-1330, 1380-1460, 1800-1850, 1860-2000 by what the host did.
    EXPECT_DOUBLE_EQ(us(*profile.idle_during, Phase::wait), 100);
    EXPECT_DOUBLE_EQ(us(*profile.idle_during, Phase::copy), 20 + 10);
    EXPECT_DOUBLE_EQ(us(*profile.idle_during, Phase::forward), 20 + 10 + 20);
    EXPECT_DOUBLE_EQ(us(*profile.queued_during, Phase::forward), 10);  // from 1320 on
    EXPECT_DOUBLE_EQ(us(*profile.idle_during, Phase::backward), 60);
    EXPECT_DOUBLE_EQ(us(*profile.idle_during, Phase::sync), 50 + 90);
    EXPECT_DOUBLE_EQ(us(*profile.idle_during, Phase::unmeasured), 50 + 50);
    EXPECT_EQ(rank.intervals.at(0).device_bytes, 950000);
    EXPECT_EQ(rank.facts.rank, 3);
    EXPECT_EQ(rank.facts.world_size, 4);
    EXPECT_EQ(rank.facts.device.tensor_cores, true);
    EXPECT_EQ(rank.facts.data.workers, 0);
}

TEST(ReadTraces, SelfTimeIsWithoutTheOperatorsWithin) {
    const RankRecords rank =
        records_of({event("cpu_op", "outer", 0, 100), event("cpu_op", "inner", 10, 30), event("cpu_op", "leaf", 20, 5),
                    event("cpu_op", "inner", 50, 20), event("cpu_op", "other", 15, 10, 2)});
    std::map<std::string, std::pair<std::int64_t, double>> self;
    for (const OperatorEntry& op : rank.profile->operators) {
        self[op.name] = {op.count, op.self_us};
    }
    EXPECT_EQ(self["outer"], (std::pair<std::int64_t, double>(1, 50)));
    EXPECT_EQ(self["inner"], (std::pair<std::int64_t, double>(2, 45)));
    EXPECT_EQ(self["leaf"], (std::pair<std::int64_t, double>(1, 5)));
    EXPECT_EQ(self["other"], (std::pair<std::int64_t, double>(1, 10)));
}

TEST(ReadTraces, TheLoadersWaitCountsAsOperatorAndAsAnnotation) {
    for (const char* category : {"cpu_op", "user_annotation"}) {
        const RankRecords rank =
            records_of({event("user_annotation", "ProfilerStep#1", 0, 100),
                        event(category, "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", 10, 40),
                        event("cpu_op", "aten::set_", 20, 10), event("cpu_op", "aten::mm", 60, 10)});
        EXPECT_DOUBLE_EQ(us(rank.steps[0].host.times, Phase::wait), 40) << category;
        EXPECT_DOUBLE_EQ(us(rank.steps[0].host.times, Phase::forward), 10) << category;
        EXPECT_EQ(rank.facts.data.workers, std::nullopt) << category;
    }
}

TEST(ReadTraces, TheRangesOfTheTrainingThreadMayHaveAThreadOfTheirOwn) {
    const RankRecords records = records_of({
        event("user_annotation", "ProfilerStep#1", 0, 100, /*thread=*/2),
        event("user_annotation", "Optimizer.step#SGD.step", 60, 30, /*thread=*/2),
        event("cpu_op", "aten::linear", 10, 20),
        event("cpu_op", "aten::add_", 65, 10),
    });
    ASSERT_EQ(records.steps.size(), 1u);
    EXPECT_DOUBLE_EQ(us(records.steps[0].host.times, Phase::forward), 20);
    EXPECT_DOUBLE_EQ(us(records.steps[0].host.times, Phase::optimizer), 30);
}

TEST(ReadTraces, EventsOutOfOrderGiveTheSame) {
    std::vector<std::string> events = {
        event("user_annotation", "ProfilerStep#1", 0, 100), event("user_annotation", "Optimizer.step#SGD.step", 70, 20),
        event("cpu_op", "aten::mm", 10, 10), event("cpu_op", "autograd::engine::evaluate_function: A", 30, 10),
        event("cpu_op", "autograd::engine::evaluate_function: B", 50, 10)};
    const PhaseTimes forward = records_of(events).steps[0].host.times;
    std::ranges::reverse(events);
    EXPECT_EQ(records_of(events).steps[0].host.times, forward);
    EXPECT_DOUBLE_EQ(us(forward, Phase::forward), 20);
    EXPECT_DOUBLE_EQ(us(forward, Phase::backward), 30);
    EXPECT_DOUBLE_EQ(us(forward, Phase::optimizer), 20);
}

TEST(ReadTraces, WithoutStepsTheTraceIsOneStep) {
    const RankRecords rank = records_of({event("cpu_op", "aten::mm", 100, 50), event("cpu_op", "aten::mm", 180, 20)});
    ASSERT_EQ(rank.steps.size(), 1u);
    EXPECT_EQ(rank.steps[0].host.total(), std::chrono::microseconds(100));
    EXPECT_FALSE(rank.profile->gpu);
    EXPECT_EQ(rank.facts.device.type, "cpu");
}

TEST(ReadTraces, APlaceIsTheInnermostFunctionOfTheUser) {
    const std::string item = R"("correlation": 5)";
    const RankRecords rank = records_of(
        {event("python_function", "train.py(12): main", 0, 100), event("python_function", "loop.py(3): step", 5, 90),
         event("python_function", "torch/nn/modules/module.py(1): _call_impl", 6, 80),
         event("python_function", "<built-in method item>", 8, 70), event("cpu_op", "aten::item", 10, 60),
         event("cuda_runtime", "cudaStreamSynchronize", 20, 40, 1, item),
         event("kernel", "k", 0, 30, 7, R"("stream": 7, "correlation": 1)"),
         event("kernel", "k", 90, 5, 7, R"("stream": 7, "correlation": 2)")});
    ASSERT_EQ(rank.profile->syncs.size(), 1u);
    EXPECT_EQ(rank.profile->syncs[0].place, "loop.py:3 (step), aten::item");
    EXPECT_DOUBLE_EQ(*rank.profile->syncs[0].idle_us, 60);  // from the end of the first kernel on
}

TEST(ReadTraces, FindsSequences) {
    std::vector<std::string> events;
    for (int i = 0; i < 10; ++i) {
        events.push_back(event("cpu_op", "aten::select", 10 * i, 2, 1, R"("Input Dims": [[10, 4], []])"));
        events.push_back(event("cpu_op", "aten::mul", 10 * i + 4, 2));
    }
    EXPECT_EQ(records_of(events).profile->sequences.at(0).kind, "indexing loop");
    EXPECT_EQ(records_of(events).profile->sequences.at(0).count, 10);
    EXPECT_DOUBLE_EQ(records_of(events).profile->sequences.at(0).us, 92);
    events.resize(18);
    EXPECT_TRUE(records_of(events).profile->sequences.empty());  // nine are not a loop

    const auto conv = [](const char* bias) {
        return records_of({event("cpu_op", "aten::conv2d", 0, 5, 1,
                                 std::string(R"("Input Dims": [[8,3,9,9],[4,3,3,3],)") + bias + "]"),
                           event("cpu_op", "aten::add_", 6, 1), event("cpu_op", "aten::batch_norm", 8, 5)})
            .profile->sequences;
    };
    EXPECT_EQ(conv("[4],[]").at(0).kind, "conv bias before batch norm");
    EXPECT_TRUE(conv("[],[]").empty());
}

TEST(ReadTraces, TensorCoresByTheKernelsName) {
    for (const char* name :
         {"ampere_fp16_s16816gemm_fp16_128x128", "volta_h884gemm_64x64", "sm80_xmma_fprop_implicit_gemm_tf32f32",
          "cutlass_80_tensorop_bf16_s16816gemm", "nvjet_hsh_128x128", "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn",
          "void cutlass::device_kernel<sm90_gmma_rs>"}) {
        EXPECT_TRUE(uses_tensor_cores(name)) << name;
    }
    for (const char* name : {"volta_sgemm_128x32_nn", "ampere_sgemm_32x32_tn", "vectorized_elementwise_kernel",
                             "cutlass_80_simt_sgemm_128x64_8x5_nn_align1", "sm90_elementwise_kernel",
                             "sm80_xmma_fprop_implicit_gemm_indexed_f32f32_f32f32_f32_nhwckrsc_nchw",
                             "cudnn::bn_fw_tr_1C11_kernel_NCHW", "ncclDevKernel_AllReduce_Sum_f32_RING_LL"}) {
        EXPECT_FALSE(uses_tensor_cores(name)) << name;
    }
}

TEST(ReadTraces, KernelsAsHtaSortsThem) {
    EXPECT_TRUE(is_compute_kernel("gemm"));
    EXPECT_TRUE(is_compute_kernel("first\nMemcpy"));
    EXPECT_FALSE(is_compute_kernel("ncclKernel_AllReduce_RING_LL_Sum_float"));
    EXPECT_FALSE(is_compute_kernel("Memcpy DtoD (Device -> Device)"));
    EXPECT_FALSE(is_compute_kernel("Memset (Device)"));
    EXPECT_FALSE(is_compute_kernel("Context Sync"));
}

// The file of a cycle of torch.profiler's schedule.
fs::path write_cycle(const fs::path& folder, const std::string& name, int first_step, double step_us,
                     const std::string& head = "") {
    const double start = 10'000.0 * first_step;
    std::string text = "{" + head + R"("traceEvents": [)";
    for (int i = 0; i < 2; ++i) {
        const double at = start + i * step_us;
        text += (i == 0 ? "" : ",") +
                event("user_annotation", "ProfilerStep#" + std::to_string(first_step + i), at, step_us) + "," +
                event("cpu_op", "aten::mm", at + 1, step_us / 2);
    }
    fs::path path = folder / name;
    std::ofstream(path) << text + "]}";
    return path;
}

TEST(ReadTraces, EachWorkerIsARank) {
    const stoker::testing::TempDir folder;
    const fs::path other = write_cycle(folder.path(), "other.json", 1, 100);
    const fs::path paths[] = {kTwoStreams, other, write_cycle(folder.path(), "third.json", 1, 100)};
    const RunRecords records = read_traces(paths);
    EXPECT_EQ(records.kind, "trace");
    ASSERT_EQ(records.ranks.size(), 3u);
    EXPECT_EQ(records.ranks[0].facts.rank, 0);
    EXPECT_EQ(records.ranks[1].facts.rank, 1);
    EXPECT_EQ(records.ranks[2].facts.rank, 3);
    EXPECT_THROW(read_traces({}), InvalidArgument);
}

TEST(ReadTraces, ATraceWithoutMarkedStepsSaysSo) {
    const stoker::testing::TempDir folder;
    const fs::path marked[] = {write_cycle(folder.path(), "marked.json", 1, 100)};
    EXPECT_TRUE(read_traces(marked).problems.empty());
    const fs::path plain[] = {folder.path() / "plain.json"};
    std::ofstream(plain[0]) << "{\"traceEvents\": [" << event("cpu_op", "aten::mm", 1, 50) << "]}";
    EXPECT_THAT(read_traces(plain).problems, ElementsAre(::testing::StartsWith("plain.json: no step")));
}

TEST(ReadTraces, TheFilesOfOneProcessAreOneRank) {
    for (const std::string head : {"", R"("distributedInfo": {"rank": 0, "world_size": 1}, )"}) {
        const stoker::testing::TempDir folder;
        const fs::path paths[] = {write_cycle(folder.path(), "host.a_42.200.pt.trace.json", 7, 1000, head),
                                  write_cycle(folder.path(), "host.a_42.100.pt.trace.json", 2, 100, head)};
        const RunRecords records = read_traces(paths);
        ASSERT_EQ(records.ranks.size(), 1u) << head;
        const RankRecords& rank = records.ranks[0];
        EXPECT_EQ(rank.facts.world_size, 1);
        std::vector<std::int64_t> steps;
        std::ranges::transform(rank.steps, std::back_inserter(steps), &StepEntry::step);
        EXPECT_THAT(steps, ElementsAre(2, 3, 7, 8));
        EXPECT_EQ(rank.profile->steps, 2);  // without the first of each file
        EXPECT_DOUBLE_EQ(rank.profile->span_us, 100 + 1000);
        ASSERT_EQ(rank.profile->operators.size(), 1u);
        EXPECT_EQ(rank.profile->operators[0].count, 2);
        EXPECT_DOUBLE_EQ(rank.profile->operators[0].self_us, 50 + 500);
        for (const Finding& finding : diagnose(records).findings) {
            EXPECT_NE(finding.rule, "straggler");
        }
    }
}

// A tenth of the steps is left out, and not the whole first part.
TEST(ReadTraces, AllPartsOfAProcessCount) {
    std::vector<RankRecords> parts(3);
    for (std::int64_t part = 0; part < 3; ++part) {
        RankRecords& rank = parts[static_cast<std::size_t>(part)];
        rank.intervals = {{.first_step = 10 * part + 1, .last_step = 10 * part + 10, .device_bytes = 1}};
        for (std::int64_t step = 1; step <= 10; ++step) {
            rank.steps.push_back({.step = 10 * part + step});
        }
    }
    EXPECT_EQ(summarize(merged_parts(std::move(parts))).steps, 27);
}

TEST(ReadTraces, StepNumbersOfADamagedTraceHaveALimit) {
    const RankRecords rank = records_of(
        {event("user_annotation", "ProfilerStep#9223372036854775807", 0, 100), event("cpu_op", "aten::mm", 10, 20)});
    ASSERT_EQ(rank.steps.size(), 1u);
    EXPECT_LE(rank.steps[0].step, std::int64_t{1} << 40);
}

TEST(ReadTraces, PartsWithTheSameStepsAreNumberedOn) {
    const stoker::testing::TempDir folder;
    const fs::path paths[] = {write_cycle(folder.path(), "host_42.100.pt.trace.json", 1, 100),
                              write_cycle(folder.path(), "host_42.200.pt.trace.json", 1, 100),
                              write_cycle(folder.path(), "host_43.200.pt.trace.json", 1, 100)};
    const RunRecords records = read_traces(paths);
    ASSERT_EQ(records.ranks.size(), 2u);
    EXPECT_EQ(records.ranks[0].steps.back().step, 4);
    EXPECT_EQ(records.ranks[1].steps.back().step, 2);
}

TEST(ReadTraces, IdleTimeBeforeTheFirstAndAfterTheLastKernelCounts) {
    const std::vector<TimeRange> gaps = idle_gaps({{20, 30}, {40, 50}}, {0, 100});
    std::vector<std::pair<std::int64_t, std::int64_t>> found;
    for (const TimeRange& gap : gaps) {
        found.emplace_back(gap.start, gap.end);
    }
    using Gap = std::pair<std::int64_t, std::int64_t>;
    EXPECT_THAT(found, ElementsAre(Gap(0, 20), Gap(30, 40), Gap(50, 100)));
    EXPECT_TRUE(idle_gaps({}, {0, 100}).empty()) << "no GPU";
    EXPECT_TRUE(idle_gaps({{-10, 200}}, {0, 100}).empty());
}

TEST(ReadTraces, DeepNestingCostsNoMoreThanManyEvents) {
    constexpr int kDeep = 200'000;
    std::vector<std::string> events;
    for (int i = 0; i < kDeep; ++i) {
        events.push_back(event("cpu_op", "op", i, 2.0 * kDeep - 2 * i));
    }
    const std::clock_t began = std::clock();
    const RankRecords rank = records_of(events);
    EXPECT_LT(static_cast<double>(std::clock() - began) / CLOCKS_PER_SEC, 10) << "quadratic: minutes";
    ASSERT_EQ(rank.profile->operators.size(), 1u);
    EXPECT_EQ(rank.profile->operators[0].count, kDeep);
}

TEST(ReadTraces, RunsThatKnowNothingOfEachOtherAreNotOneJob) {
    const stoker::testing::TempDir folder;
    const auto records_with = [&](const std::string& first, const std::string& second) {
        const fs::path paths[] = {write_cycle(folder.path(), "a.json", 1, 100, first),
                                  write_cycle(folder.path(), "b.json", 1, 5000, second)};
        return read_traces(paths);
    };
    const auto straggles = [](const RunRecords& records) {
        return std::ranges::any_of(diagnose(records).findings, [](const Finding& f) { return f.rule == "straggler"; });
    };
    const RunRecords unrelated = records_with("", "");
    EXPECT_EQ(unrelated.ranks.at(1).facts.world_size, 1);
    EXPECT_FALSE(straggles(unrelated));
    ASSERT_EQ(unrelated.problems.size(), 1u);
    EXPECT_THAT(unrelated.problems[0], ::testing::HasSubstr("distributedInfo"));
    const RunRecords ranks = records_with(R"("distributedInfo": {"rank": 0, "world_size": 2}, )",
                                          R"("distributedInfo": {"rank": 1, "world_size": 2}, )");
    EXPECT_TRUE(straggles(ranks));
    EXPECT_TRUE(ranks.problems.empty());
}

TEST(ReadTraces, TheTenthFileIsTheTenthRank) {
    const stoker::testing::TempDir folder;
    std::vector<fs::path> paths;
    for (int i = 0; i < 12; ++i) {
        paths.push_back(write_cycle(folder.path(), "t" + std::to_string(i) + ".json", 1, 100 * (i + 1)));
    }
    const RunRecords records = read_traces(paths);
    ASSERT_EQ(records.ranks.size(), 12u);
    for (int i = 0; i < 12; ++i) {
        EXPECT_DOUBLE_EQ(records.ranks[static_cast<std::size_t>(i)].profile->span_us, 100.0 * (i + 1)) << i;
    }
}

TEST(ReadTraces, CollectivesAtOneTimeAreExposedOnce) {
    const auto kernel = [](const std::string& name, double start, double duration, int stream) {
        return event(
            "kernel", name, start, duration, stream,
            R"("device":0,"stream":)" + std::to_string(stream) + R"(,"correlation":)" + std::to_string(stream));
    };
    const RankRecords rank =
        records_of({event("cpu_op", "aten::mm", 0, 200), kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 0, 100, 1),
                    kernel("ncclDevKernel_AllGather_RING_LL", 50, 100, 2), kernel("gemm", 0, 20, 3)});
    double exposed = 0;
    double us = 0;
    for (const CollectiveEntry& collective : rank.profile->collectives) {
        exposed += collective.exposed_us;
        us += collective.us;
    }
    EXPECT_DOUBLE_EQ(us, 200);
    EXPECT_DOUBLE_EQ(exposed, 130) << "20 to 150";
}

TEST(ReadTraces, ATraceOfARunAddsItsProfile) {
    RunRecords run{
        .ranks = {RankRecords{.facts = {.writer = "torch", .rank = 3}, .steps = {{.step = 1}, {.step = 2}}}}};
    const std::array paths{kTwoStreams};
    add_traces(run, paths);
    ASSERT_EQ(run.ranks.size(), 1U);
    EXPECT_EQ(run.ranks[0].steps.size(), 2U);
    EXPECT_EQ(run.ranks[0].facts.writer, "torch");
    ASSERT_TRUE(run.ranks[0].profile);
    EXPECT_DOUBLE_EQ(run.ranks[0].profile->gpu->times.compute_us, 450);
    EXPECT_FALSE(costly_operators(run.ranks[0], 3).empty());

    RunRecords other{.ranks = {RankRecords{.facts = {.rank = 5}}}};
    add_traces(other, paths);
    EXPECT_FALSE(other.ranks[0].profile);
    EXPECT_THAT(other.problems, Contains(HasSubstr("which the run does not have")));
}

}  // namespace
}  // namespace stoker
