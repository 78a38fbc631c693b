// A trace whose profiler rested between two cycles: time that was not recorded is not idleness.
#include "stoker/diagnose/torch_trace/recorded_windows.h"

#include <gmock/gmock.h>

#include <fmt/format.h>

#include "stoker/base/file.h"
#include "stoker/diagnose/torch_trace/read_traces.h"
#include "stoker/diagnose/torch_trace/trace_file.h"
#include "support/temp_dir.h"

namespace stoker {
namespace {

// A step of 1 ms in which a kernel runs for 0.9 ms.
std::string step_at(int number, int ms) {
    return fmt::format(
        R"({{"ph":"X","cat":"user_annotation","name":"ProfilerStep#{0}","pid":1,"tid":1,"ts":{1},"dur":1000}},)"
        R"({{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":1,"tid":1,"ts":{2},"dur":50}},)"
        R"({{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":{3},"dur":5,)"
        R"("args":{{"correlation":{0}}}}},)"
        R"({{"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":7,"ts":{4},"dur":900,)"
        R"("args":{{"correlation":{0},"stream":7,"device":0}}}})",
        number, 1000 * ms, 1000 * ms + 10, 1000 * ms + 20, 1000 * ms + 50);
}

// Steps 1 to 5 and 101 to 105; between them 95 ms without a record.
std::string trace_with_a_hole() {
    std::string events;
    for (const int first : {1, 101}) {
        for (int i = 0; i < 5; ++i) {
            events += (events.empty() ? "" : ",") + step_at(first + i, first + i);
        }
    }
    return R"({"traceEvents": [)" + events + "]}";
}

TEST(RecordedWindows, ATraceIsCutAtItsHole) {
    const auto windows = recorded_windows(read_trace_bytes(as_bytes(trace_with_a_hole()), "made"));
    ASSERT_EQ(windows.size(), 2U);
    EXPECT_EQ(windows[0].events.size(), 20U);
    EXPECT_EQ(windows[1].events.size(), 20U);
    EXPECT_EQ(windows[1].names[windows[1].events[0].name], "ProfilerStep#101");
}

TEST(RecordedWindows, WithoutAHoleATraceStaysWhole) {
    std::string events;
    for (int i = 1; i <= 5; ++i) {
        events += (i == 1 ? "" : ",") + step_at(i, 3 * i);  // time between steps alone is none
    }
    const auto windows = recorded_windows(read_trace_bytes(as_bytes(R"({"traceEvents": [)" + events + "]}"), "made"));
    ASSERT_EQ(windows.size(), 1U);
    EXPECT_EQ(windows[0].events.size(), 20U);
}

TEST(RecordedWindows, TheHoleIsNoIdleTime) {
    const testing::TempDir dir;
    write_file(dir / "trace.json", trace_with_a_hole());
    const RunRecords records = read_traces(std::array{dir / "trace.json"});
    ASSERT_EQ(records.ranks.size(), 1U);
    const ProfileEntry& profile = *records.ranks[0].profile;
    EXPECT_EQ(profile.steps, 8) << "without the first of each part";
    EXPECT_DOUBLE_EQ(profile.span_us, 8'000);
    EXPECT_DOUBLE_EQ(profile.gpu->times.busy(), 0.9);
    EXPECT_GT(profile.gpu->hta.busy(), 0.9) << "of the span of the kernels of four steps each, as HTA counts";
    EXPECT_EQ(records.ranks[0].steps.back().step, 105);
}

}  // namespace
}  // namespace stoker
