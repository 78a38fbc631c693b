// Made traces of GPUs: whose fault the idle time is, CUDA graphs, boards of other makers, and files that are damaged or
// no traces.
#include <gmock/gmock.h>

#include <array>
#include <fstream>
#include <string>
#include <vector>

#include "stoker/base/error.h"
#include "stoker/diagnose/costly_calls.h"
#include "stoker/diagnose/diagnose.h"
#include "stoker/diagnose/rules/run_summary.h"
#include "stoker/diagnose/torch_trace/read_traces.h"
#include "stoker/diagnose/torch_trace/trace_file.h"
#include "stoker/io/gzip.h"
#include "support/temp_dir.h"

namespace stoker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The events of a trace, in microseconds.
class Made {
  public:
    Made& add(const std::string& cat, const std::string& name, double start, double duration,
              const std::string& arguments = "") {
        text_ += (text_.empty() ? "" : ",") + std::string(R"({"ph":"X","cat":")") + cat + R"(","name":")" + name +
                 R"(","pid":1,"tid":1,"ts":)" + std::to_string(start) + R"(,"dur":)" + std::to_string(duration) +
                 R"(,"args":{)" + arguments + "}}";
        return *this;
    }
    // A kernel and the call that launches it.
    Made& kernel(const std::string& call, double launch, const std::string& name, double start, double duration,
                 int correlation) {
        const std::string number = R"("correlation":)" + std::to_string(correlation);
        add("cuda_runtime", call, launch, 5, number);
        return add("kernel", name, start, duration, R"("stream":7,"device":0,)" + number);
    }
    Made& writer(const std::string& name) {
        properties_ = R"("writer": ")" + name + "\",";
        return *this;
    }
    std::string text() const { return "{" + properties_ + R"("traceEvents": [)" + text_ + "]}"; }
    Made& properties(const std::string& device) {
        properties_ = R"("deviceProperties": [{"id": 0, )" + device + "}],";
        return *this;
    }
    TraceEvents read() const { return read_trace_bytes(as_bytes(text()), "made"); }
    RankRecords records() const { return rank_records(read()); }
    RunRecords run() const {
        RunRecords run{.kind = "trace"};
        run.ranks.push_back(records());
        return run;
    }

  private:
    static std::span<const std::byte> as_bytes(const std::string& text) {
        return std::as_bytes(std::span(text.data(), text.size()));
    }
    std::string text_ = {};
    std::string properties_ = {};
};

double us_of(const PhaseTimes& times, Phase phase) {
    return std::chrono::duration<double, std::micro>(times[static_cast<std::size_t>(phase)]).count();
}

// The GPU's time with any work.
double us_of_all(const RankRecords& rank) {
    const GpuTimes& times = rank.profile->gpu->times;
    return times.compute_us + times.non_compute_us;
}

// Steps of 100 ms: 80 ms in the loader, 18 ms of kernels, then a loss is read.
Made loader_after_item() {
    Made made;
    for (int step = 0; step < 5; ++step) {
        const double at = 100'000.0 * step;
        const int id = 10 * step;
        made.add("user_annotation", "ProfilerStep#" + std::to_string(step), at, 100'000);
        made.add("user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", at, 80'000);
        made.add("cpu_op", "aten::mm", at + 80'000, 100);
        made.kernel("cudaLaunchKernel", at + 80'010, "gemm", at + 80'050, 18'000, id);
        made.add("cpu_op", "aten::item", at + 80'200, 18'000);
        made.add("cuda_runtime", "cudaStreamSynchronize", at + 80'300, 17'850);
    }
    return made;
}

TEST(GpuTraces, ALateBatchAfterAReadLossIsTheLoadersFault) {
    const RunRecords run = loader_after_item().run();
    EXPECT_NEAR(us_of(*run.ranks[0].profile->idle_during, Phase::wait), 320'000, 1);  // without the first step
    ASSERT_EQ(run.ranks[0].profile->syncs.size(), 1u);
    EXPECT_LT(*run.ranks[0].profile->syncs[0].idle_us, 20'000);
    EXPECT_EQ(diagnose(run).verdict.rule, "input-bound");
}

TEST(GpuTraces, TheOperatorOfAGraphHasTheTimeOfAllItsKernels) {
    Made made;
    made.add("cpu_op", "Graph", 0, 100);
    made.kernel("cudaGraphLaunch", 10, "first", 50, 30, 5);
    made.add("kernel", "second", 81, 20, R"("stream":7,"device":0,"correlation":5)");
    made.add("gpu_memcpy", "Memcpy DtoD (Device -> Device)", 102, 8, R"("stream":7,"device":0,"correlation":5)");
    const std::vector<OperatorEntry> operators = made.records().profile->operators;
    ASSERT_EQ(operators.size(), 1u);
    EXPECT_DOUBLE_EQ(operators[0].device_us, 58);
    EXPECT_EQ(operators[0].kernels, 2);
}

// Ten steps of 1 ms, each with an operator that launches a kernel of 500 us; the first one lasts `first` us.
Made steps_after(double first) {
    Made made;
    double at = 0;
    for (int step = 0; step < 10; ++step) {
        const double length = step == 0 ? first : 1000;
        made.add("user_annotation", "ProfilerStep#" + std::to_string(step), at, length);
        made.add("user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", at, length - 900);
        made.add("cpu_op", "aten::mm", at + length - 800, 100);
        made.kernel("cudaLaunchKernel", at + length - 790, "gemm", at + length - 750, 500, step);
        at += length;
    }
    return made;
}

TEST(GpuTraces, AllSharesAreOfTheStepsThatFindingsName) {
    Made unmarked = steps_after(1000);
    for (int i = 0; i < 50; ++i) {  // behind the steps
        unmarked.add("cpu_op", "aten::mm", 20'000 + 1000.0 * i, 900);
        unmarked.kernel("cudaLaunchKernel", 20'010 + 1000.0 * i, "gemm", 20'100 + 1000.0 * i, 900, 100 + i);
    }
    for (const RunRecords& run : {steps_after(1000).run(), steps_after(3e6).run(), unmarked.run()}) {
        const RunSummary summary = summarize(run.ranks[0]);
        const ProfileEntry& profile = *run.ranks[0].profile;
        EXPECT_EQ(summary.first_step, 1);
        EXPECT_EQ(summary.steps, 9);
        EXPECT_DOUBLE_EQ(summary.of(Phase::wait), 0.1);
        EXPECT_EQ(profile.steps, 9);
        EXPECT_DOUBLE_EQ(profile.span_us, 9000);
        EXPECT_DOUBLE_EQ(1e6 * summary.seconds, profile.span_us);
        EXPECT_DOUBLE_EQ(us_of(*profile.idle_during, Phase::wait), 900);
        EXPECT_DOUBLE_EQ(profile.gpu->times.busy(), 0.5);
        EXPECT_DOUBLE_EQ(profile.gpu->kernel_us, 4500);
        ASSERT_EQ(profile.operators.size(), 1U);
        EXPECT_EQ(profile.operators[0].count, 9);
        EXPECT_DOUBLE_EQ(profile.operators[0].device_us, 4500);
        EXPECT_EQ(diagnose(run).findings.front().severity, Severity::warn);
    }
}

TEST(GpuTraces, WorkEndsWhereTheNextOfItsStreamBegins) {
    const auto busy_of = [](double duration, int stream, int correlation) {
        const std::string next =
            R"("device":0,"stream":)" + std::to_string(stream) + R"(,"correlation":)" + std::to_string(correlation);
        Made made;
        made.add("cpu_op", "aten::mm", 0, 1000).kernel("cudaLaunchKernel", 10, "gemm", 100, duration, 1);
        made.add("kernel", "gemm", 200, 50, next);
        return us_of_all(made.records());
    };
    EXPECT_DOUBLE_EQ(busy_of(80, 7, 2), 80 + 50);
    EXPECT_DOUBLE_EQ(busy_of(500, 7, 2), 100 + 50);  // it runs over the next one
    EXPECT_DOUBLE_EQ(busy_of(500, 8, 2), 500);       // another stream's
    EXPECT_DOUBLE_EQ(busy_of(500, 7, 1), 500);       // another branch of the graph
}

TEST(GpuTraces, WorkWithoutATimeIsLeftOutAndCounted) {
    Made made = steps_after(1000);
    made.kernel("cudaLaunchKernel", 5200, "gemm", 0, 0, 50);
    EXPECT_TRUE(made.read().problems.empty());  // the host's events also begin at 0
    Made later;
    later.add("cpu_op", "aten::mm", 5000, 1000).kernel("cudaLaunchKernel", 5010, "gemm", 5100, 400, 1);
    later.kernel("cudaLaunchKernel", 5200, "gemm", 0, 0, 50).kernel("cudaLaunchKernel", 5300, "gemm", 0, 7, 51);
    EXPECT_THAT(later.read().problems, ElementsAre(HasSubstr("2 events")));
    EXPECT_DOUBLE_EQ(later.records().profile->gpu->times.busy(), 0.4);
}

TEST(GpuTraces, IdleTimeByCauseIsNeverNegative) {
    Made made;
    made.add("cpu_op", "aten::mm", 0, 1000).kernel("cudaGraphLaunch", 10, "gemm", 100, 500, 1);
    made.add("kernel", "branch", 150, 50, R"("stream":7,"device":0,"correlation":1)");  // within the first one
    made.kernel("cudaLaunchKernel", 20, "gemm", 700, 100, 2);
    made.add("kernel", "another GPU's", 300, 50, R"("stream":7,"device":1,"correlation":3)");
    const GpuTimes times = made.records().profile->gpu->times;
    ASSERT_EQ(times.idle.size(), 1U);
    EXPECT_DOUBLE_EQ(times.idle[0].host_wait_us, 0);
    EXPECT_DOUBLE_EQ(times.idle[0].kernel_wait_us, 0);
    EXPECT_DOUBLE_EQ(times.idle[0].other_us, 100);  // from 600 to 700
}

TEST(GpuTraces, PartsOfOneStepAreAllJudged) {
    const stoker::testing::TempDir folder;
    std::vector<std::filesystem::path> paths;
    for (int part = 0; part < 3; ++part) {
        Made made;
        made.add("user_annotation", "ProfilerStep#" + std::to_string(10 * part), 5000.0 * part + 100,
                 1000 + 100 * part);
        made.add("cpu_op", "aten::mm", 5000.0 * part + 200, 500);
        paths.push_back(folder / ("host_42." + std::to_string(part) + ".pt.trace.json"));
        std::ofstream(paths.back()) << made.text();
    }
    const RunRecords run = read_traces(paths);
    ASSERT_EQ(run.ranks.size(), 1U);
    const RunSummary summary = summarize(run.ranks[0]);
    EXPECT_EQ(summary.steps, run.ranks[0].profile->steps);
    EXPECT_DOUBLE_EQ(1e6 * summary.seconds, run.ranks[0].profile->span_us);
}

TEST(GpuTraces, ATraceWithoutAnOperatorIsTooShort) {
    Made made;
    for (int step = 0; step < 5; ++step) {
        made.add("user_annotation", "ProfilerStep#" + std::to_string(step), 1000.0 * step, 1000);
    }
    EXPECT_EQ(diagnose(made.run()).verdict.rule, "too-short");
    made.add("cpu_op", "aten::mm", 2000, 900);
    EXPECT_EQ(diagnose(made.run()).verdict.rule, "healthy");
}

TEST(GpuTraces, NamesTakeABoundedMemory) {
    TextTable table;
    for (std::size_t i = 0; i < TextTable::kMost + 100; ++i) {
        table.number("batch " + std::to_string(i));
    }
    EXPECT_TRUE(table.is_full());
    EXPECT_LE(table.size(), TextTable::kMost + 1);
    EXPECT_EQ(table.number("another"), table.number("yet another"));
    EXPECT_EQ(table[table.number("batch 7")], "batch 7");
}

TEST(GpuTraces, KernelsBelowAMicrosecondCountExactly) {
    Made made;
    made.add("cpu_op", "aten::mm", 1000, 100);
    for (int i = 0; i < 100; ++i) {
        made.kernel("cudaLaunchKernel", 1000, "gemm", 1000.05 + i, 0.9, i);
    }
    const GpuEntry gpu = *made.records().profile->gpu;
    EXPECT_NEAR(gpu.times.busy(), 0.9, 1e-9);
    EXPECT_LE(gpu.hta.compute_us, 0);  // rounded to whole microseconds, the end downwards
}

// Five steps of ten launches, of `kernels` kernels each.
RunRecords short_launches(const std::string& call, int kernels) {
    Made made;
    for (int launch = 0; launch < 50; ++launch) {
        const double at = 1000.0 * launch;
        if (launch % 10 == 0) {
            made.add("user_annotation", "ProfilerStep#" + std::to_string(launch / 10), at, 10'000);
        }
        made.add("cpu_op", "aten::mm", at, 900);
        made.kernel(call, at + 10, "gemm", at + 100, 20, launch);
        for (int i = 1; i < kernels; ++i) {
            made.add("kernel", "gemm", at + 100 + 25 * i, 20,
                     R"("stream":7,"device":0,"correlation":)" + std::to_string(launch));
        }
    }
    return made.run();
}

TEST(GpuTraces, AProgramThatReplaysGraphsIsNotToldToCaptureOne) {
    const RunRecords graphs = short_launches("cudaGraphLaunch", 4);
    EXPECT_EQ(graphs.ranks[0].profile->gpu->kernels, 160);
    EXPECT_EQ(graphs.ranks[0].profile->gpu->graph_kernels, 120);
    const Diagnosis diagnosis = diagnose(graphs);
    EXPECT_EQ(diagnosis.verdict.rule, "launch-bound");
    EXPECT_THAT(diagnosis.verdict.text, HasSubstr("capture the rest of the step in the same graph"));
    EXPECT_THAT(diagnosis.findings.front().fix.code, HasSubstr("torch.cuda.graph(graph)"));
}

TEST(GpuTraces, TheTypeOfWhatNcclSends) {
    Made made;
    int correlation = 0;
    for (const char* name :
         {"ncclDevKernel_AllReduce_Sum_bf16_RING_LL(x)", "ncclDevKernel_AllReduce_Sum_f16_TREE_LL(x)",
          "ncclKernel_AllReduce_RING_LL_Sum_half(x)", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)"}) {
        const double at = 100.0 * ++correlation;
        made.add("cpu_op", "aten::mm", at, 50);
        made.kernel("cudaLaunchKernel", at + 1, name, at + 20, 30, correlation);
    }
    const std::vector<CollectiveEntry> collectives = made.records().profile->collectives;
    ASSERT_EQ(collectives.size(), 2u);
    EXPECT_EQ(collectives[0].half, false);
    EXPECT_EQ(collectives[0].count, 1);
    EXPECT_EQ(collectives[1].half, true);
    EXPECT_EQ(collectives[1].count, 3);
}

// A call that is not over when the gap begins is one that the GPU waits for.
TEST(GpuTraces, GapsBetweenQueuedKernelsAreNotTheHosts) {
    Made made;
    made.add("cpu_op", "Graph", 0, 110);
    made.kernel("cudaGraphLaunch", 10, "first", 15, 10, 5);
    made.add("kernel", "second", 30, 10, R"("stream":7,"device":0,"correlation":5)");
    made.kernel("cudaLaunchKernel", 70, "third", 80, 20, 6);
    made.kernel("cudaLaunchKernel", 98, "fourth", 104, 6, 7);
    made.kernel("cudaMemsetAsync", 103, "Memset", 112, 2, 8);
    const RankRecords rank = made.records();
    EXPECT_DOUBLE_EQ(us_of(*rank.profile->idle_during, Phase::forward), 15 + 5 + 40 + 4);
    EXPECT_DOUBLE_EQ(us_of(*rank.profile->queued_during, Phase::forward), 5);
    EXPECT_DOUBLE_EQ(us_of(*rank.profile->queued_during, Phase::unmeasured), 2);
}

// Ten graphs of two kernels, between which the GPU is idle for `gap` of each 1,000 us, while the host waits in `wait`.
Made replayed_graphs(double gap, const std::string& category, const std::string& wait) {
    Made made;
    const double kernel = (1000 - gap) / 2;
    for (int step = 0; step < 10; ++step) {
        const double at = 1000.0 * step;
        made.add("user_annotation", "ProfilerStep#" + std::to_string(step), at, 1000);
        made.kernel("cudaGraphLaunch", at + 5, "first", at + 20, kernel, step + 1);
        made.add("kernel", "second", at + 20 + kernel + gap, kernel,
                 R"("stream":7,"device":0,"correlation":)" + std::to_string(step + 1));
        made.add(category, wait, at + 30, 960);
    }
    return made;
}

// As in a training that is a few steps ahead of the GPU: its wait is the GPU's own time.
TEST(GpuTraces, AWaitDuringTheKernelsOfAGraphLosesNothing) {
    const RunRecords run = replayed_graphs(100, "cuda_runtime", "cudaEventSynchronize").run();
    EXPECT_DOUBLE_EQ(us_of(*run.ranks[0].profile->idle_during, Phase::sync), 9 * 100);
    EXPECT_DOUBLE_EQ(us_of(*run.ranks[0].profile->queued_during, Phase::sync), 9 * 100);
    EXPECT_EQ(diagnose(run).verdict.rule, "healthy");
}

TEST(GpuTraces, AGpuThatIsIdleWithinAGraphDoesNotWaitForTheHost) {
    Made made = replayed_graphs(600, "cuda_runtime", "cudaEventSynchronize");
    const Diagnosis diagnosis = diagnose(made.run());
    ASSERT_EQ(diagnosis.findings.size(), 1u);
    EXPECT_EQ(diagnosis.findings[0].rule, "gpu-idle");
    EXPECT_EQ(diagnosis.findings[0].severity, Severity::info);
    EXPECT_THAT(diagnosis.findings[0].text, HasSubstr("For 60 % it waits before kernels that are launched already"));
    EXPECT_EQ(diagnose(made.writer("stoker").run()).findings[0].fix.code,
              "a larger data.batch_size, with another learning rate");
}

TEST(GpuTraces, AWaitForABatchDuringAGraphLosesNothing) {
    const Diagnosis diagnosis =
        diagnose(replayed_graphs(600, "user_annotation", "enumerate(DataLoader)#Loader.__next__").run());
    ASSERT_EQ(diagnosis.findings.size(), 1u);
    EXPECT_EQ(diagnosis.findings[0].rule, "gpu-idle");
}

TEST(GpuTraces, OwnTracesAreAdvisedInTheTermsOfARecipe) {
    Made made;
    for (int step = 0; step < 10; ++step) {
        const double at = 1000.0 * step;
        made.add("cpu_op", "aten::item", at + 10, 900);
        made.add("cuda_runtime", "cudaStreamSynchronize", at + 20, 400);
        made.kernel("cudaLaunchKernel", at + 5, "kernel", at + 15, 300, step + 1);
    }
    RunRecords run = made.writer("torch").run();
    EXPECT_EQ(run.ranks[0].facts.writer, "torch.profiler");
    EXPECT_EQ(diagnose(run).audience, Audience::torch_trace);
    EXPECT_THAT(diagnose(run).findings.front().fix.code, HasSubstr("loss.detach()"));
    run = made.writer("stoker").run();
    EXPECT_EQ(run.ranks[0].facts.writer, "stoker");
    EXPECT_EQ(diagnose(run).audience, Audience::own_trace);
    EXPECT_THAT(diagnose(run).findings.front().fix.code, HasSubstr("in the model, the loss and the metrics"));
}

// Keys that are there by default are not advised if the recipe is not known.
TEST(GpuTraces, AnOwnTraceOfGraphsIsNotToldToMakeGraphs) {
    RunRecords run = short_launches("cudaGraphLaunch", 4);
    run.ranks[0].facts.writer = "stoker";
    const Fix fix = diagnose(run).findings.front().fix;
    EXPECT_TRUE(fix.recipe.empty());
    EXPECT_EQ(fix.code, "a larger data.batch_size, with another learning rate");
}

TEST(GpuTraces, NoBoardOfAmdIsJudgedByNvidiasNumbers) {
    const std::string device = R"("name": "Board", "computeMajor": 9)";
    Made made;
    made.properties(device).add("cpu_op", "aten::mm", 0, 100).kernel("hipLaunchKernel", 10, "Cijk_Ailk", 20, 500, 1);
    EXPECT_EQ(made.records().facts.device.tensor_cores, std::nullopt);
    Made cuda;
    cuda.properties(device).add("cpu_op", "aten::mm", 0, 100).kernel("cudaLaunchKernel", 10, "gemm", 20, 500, 1);
    EXPECT_EQ(cuda.records().facts.device.tensor_cores, true);
    cuda.properties(R"("name": "NVIDIA GeForce GTX 1660", "computeMajor": 7)");
    EXPECT_EQ(cuda.records().facts.device.tensor_cores, false);
}

// Their events have no stream.
TEST(GpuTraces, IdleTimeAndCopiesOfXpus) {
    Made made;
    made.add("user_annotation", "ProfilerStep#1", 0, 1000);
    made.add("cpu_op", "aten::copy_", 0, 100);
    made.add("xpu_runtime", "zeCommandListAppendMemoryCopy", 10, 5, R"("correlation":1)");
    made.add("gpu_memcpy", "Memcpy M2D", 20, 180, R"("device":0,"correlation":1,"bytes":4096)");
    made.add("kernel", "gemm", 200, 400, R"("device":0,"correlation":2)");
    made.add("gpu_memcpy", "Memcpy H2D", 700, 10, R"("device":0,"correlation":3,"bytes":4096)");
    const RankRecords rank = made.records();
    ASSERT_TRUE(rank.profile->idle_during);
    ASSERT_EQ(rank.profile->copies.size(), 1u);
    EXPECT_EQ(rank.profile->copies[0].count, 2);
    EXPECT_EQ(rank.profile->copies[0].kind, "HtoD");
}

TEST(GpuTraces, ATraceOfOperatorsAloneIsNotHealthy) {
    Made made;
    made.add("cpu_op", "aten::mm", 2000, 900).add("cpu_op", "aten::add", 90000, 900);
    EXPECT_EQ(diagnose(made.run()).verdict.rule, "no-ranges");
    made.add("user_annotation", "ProfilerStep#1", 2000, 900);
    EXPECT_EQ(diagnose(made.run()).verdict.rule, "healthy");
}

TEST(GpuTraces, WhatCannotBeJudgedIsNotHealthy) {
    EXPECT_EQ(diagnose(Made().run()).verdict.rule, "too-short");
    EXPECT_EQ(diagnose(Made().add("", "another tool's", 0, 100).run()).verdict.rule, "too-short");
    EXPECT_NE(diagnose(loader_after_item().run()).verdict.rule, "too-short");
}

TEST(GpuTraces, SyncsOfATraceBelongToItsSteps) {
    RankRecords rank = loader_after_item().records();
    rank.intervals.push_back({.first_step = 1, .last_step = 1000});
    EXPECT_DOUBLE_EQ(steps_of_syncs(rank), 4);
    rank.profile->syncs.clear();
    EXPECT_DOUBLE_EQ(steps_of_syncs(rank), 1000);
    rank.intervals.clear();
    EXPECT_DOUBLE_EQ(steps_of_syncs(rank), 1);
}

class GpuTraceFiles : public ::testing::Test {
  protected:
    std::filesystem::path write(const std::string& name, const std::string& text) const {
        const std::filesystem::path path = dir_ / name;
        std::ofstream(path, std::ios::binary) << text;
        return path;
    }
    std::string packed() const {
        const std::string text = loader_after_item().text();
        const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
        const Buffer gz = gzip(std::array{std::span<const std::byte>(bytes)});
        return {reinterpret_cast<const char*>(gz.data()), gz.size()};
    }

  private:
    testing::TempDir dir_;
};

TEST_F(GpuTraceFiles, OtherFilesOfAFolderAreLeftOut) {
    const std::array files = {write("config.json", "{}"), write("trace.json", loader_after_item().text())};
    EXPECT_THROW(read_traces(files), DataError);
    EXPECT_THROW(read_traces(files, 1), DataError) << "the first was named";
    const RunRecords run = read_traces(files, 2);
    EXPECT_EQ(run.ranks.size(), 1u);
    EXPECT_THAT(run.problems, ElementsAre(HasSubstr("config.json")));
    EXPECT_THROW(read_traces(std::array{files[0], files[0]}, 2), DataError) << "none is a trace";
}

TEST_F(GpuTraceFiles, ZerosAfterAGzipStreamArePadding) {
    const TraceEvents trace = read_trace_file(write("t.json.gz", packed() + std::string(512, '\0')));
    EXPECT_EQ(trace.events.size(), 35u);
    EXPECT_TRUE(trace.problems.empty());
}

TEST_F(GpuTraceFiles, AWrongChecksumLosesNothingBeforeIt) {
    std::string gz = packed();
    gz[gz.size() - 8] = static_cast<char>(gz[gz.size() - 8] ^ 1);
    const TraceEvents trace = read_trace_file(write("t.json.gz", gz));
    EXPECT_EQ(trace.events.size(), 35u);
    EXPECT_THAT(trace.problems, ElementsAre(HasSubstr("damaged")));
}

}  // namespace
}  // namespace stoker
