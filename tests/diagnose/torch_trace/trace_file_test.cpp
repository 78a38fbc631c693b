// Events of a trace: numbers, odd members, damage, and the one sentence that says what is missing.
#include "stoker/diagnose/torch_trace/trace_file.h"

#include <gmock/gmock.h>
#include <string>

#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/diagnose/torch_trace/event_parser.h"
#include "stoker/io/gzip.h"
#include "support/temp_dir.h"

namespace stoker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TraceEvents read(const std::string& text) {
    return read_trace_bytes(as_bytes(text), "t.json");
}

TraceEvents read_events(const std::string& events) {
    return read(R"({"traceEvents": [)" + events + "]}");
}

std::optional<std::int64_t> ns(const char* text) {
    bool fractional = false;
    return parse_microseconds(text, fractional);
}

TEST(TraceFile, TimesKeepTheirNanoseconds) {
    EXPECT_EQ(ns("1712195495502094.523"), 1712195495502094523);
    EXPECT_EQ(ns("7"), 7000);
    EXPECT_EQ(ns("0.5"), 500);
    EXPECT_EQ(ns("-0.25"), -250);
    EXPECT_EQ(ns("-3.001"), -3001);
    EXPECT_EQ(ns("1.5e3"), 1500000);
    EXPECT_EQ(ns("2.7182818"), 2718);
    for (const char* text :
         {"", "x", "1.2.3", "1e300", "nan", "9223372036854775807", "4000000000000000", "--1", "0x10", "1 2"}) {
        EXPECT_EQ(ns(text), std::nullopt) << text;
    }
}

TEST(TraceFile, FractionsAreNoticed) {
    EXPECT_FALSE(read_events(R"({"ph":"X","cat":"cpu_op","ts":5,"dur":2.5})").fractional);
    EXPECT_TRUE(read_events(R"({"ph":"X","cat":"cpu_op","ts":5.0,"dur":2})").fractional);
    EXPECT_TRUE(read_events(R"({"ph":"M","name":"process_name"})").fractional);  // pandas then has doubles
}

TEST(TraceFile, ReadsMembersInAnyOrder) {
    const TraceEvents trace = read_events(
        R"({"args": {"nested": {"stream": 9, "a": [[{}]]}, "stream": 7, "correlation": "42", "device": 1, "bytes": 64},)"
        R"("dur": 1.5, "tid": 7, "pid": 0, "name": "Memcpy \u0041", "ts": 10, "cat": "gpu_memcpy", "ph": "X"})");
    ASSERT_EQ(trace.events.size(), 1u);
    const TraceEvent& event = trace.events[0];
    EXPECT_EQ(event.kind, EventKind::memcpy);
    EXPECT_EQ(trace.names[event.name], "Memcpy A");
    EXPECT_EQ(trace.threads[event.thread], "0 7");
    EXPECT_EQ(event.start_ns, 10000);
    EXPECT_EQ(event.duration_ns, 1500);
    EXPECT_EQ(event.stream, 7);
    EXPECT_EQ(event.correlation, 42);
    EXPECT_EQ(event.device, 1);
    EXPECT_EQ(event.bytes, 64);
}

TEST(TraceFile, OfDuplicateKeysTheLastCounts) {
    const TraceEvents trace = read_events(R"({"cat":"cpu_op","name":"a","name":"b","ts":1,"ts":2,"dur":1,"dur":3})");
    EXPECT_EQ(trace.names[trace.events[0].name], "b");
    EXPECT_EQ(trace.events[0].start_ns, 2000);
    EXPECT_EQ(trace.events[0].duration_ns, 3000);
}

TEST(TraceFile, EventsWithoutADurationAreReadAndNotKept) {
    const TraceEvents trace = read_events(
        R"({"ph":"s","cat":"ac2g","ts":1}, {"ph":"M","name":"n","args":7}, {"ph":"X","cat":"Trace","ts":1,"dur":9},)"
        R"({"ph":"X","cat":"kernel","ts":"x","dur":1}, {"ph":"X","ts":1,"dur":1}, {}, )"
        R"({"ph":"X","cat":"kernel","ts":1,"dur":1,"args":{"stream":"0x0","correlation":null}})");
    EXPECT_EQ(trace.read, 7);
    ASSERT_EQ(trace.events.size(), 1u);
    EXPECT_EQ(trace.events[0].stream, -1);
    EXPECT_EQ(trace.events[0].correlation, -1);
    EXPECT_TRUE(trace.problems.empty());
}

TEST(TraceFile, ReadsTheDeviceAndThePeakOfItsMemory) {
    const TraceEvents trace =
        read(R"({"distributedInfo": {"backend": "nccl", "rank": 2, "world_size": 8},)"
             R"("deviceProperties": [{"name": "G", "totalGlobalMem": 99, "computeMajor": 9}, 5], "traceEvents": [)"
             R"({"ph":"i","name":"[memory]","ts":1,"args":{"Total Allocated":30,"Device Type":1}},)"
             R"({"ph":"i","name":"[memory]","ts":2,"args":{"Total Allocated":20,"Device Type":1}},)"
             R"({"ph":"i","name":"[memory]","ts":3,"args":{"Total Allocated":90,"Device Type":0}}]})");
    EXPECT_EQ(trace.rank, 2);
    EXPECT_EQ(trace.world_size, 8);
    ASSERT_EQ(trace.devices.size(), 1u);
    EXPECT_EQ(trace.devices[0].name, "G");
    EXPECT_EQ(trace.devices[0].memory_bytes, 99);
    EXPECT_EQ(trace.devices[0].compute_major, 9);
    EXPECT_EQ(trace.peak_device_bytes, 30);
}

TEST(TraceFile, DamageIsOneSentenceWithItsPlace) {
    const std::string event = R"({"ph":"X","cat":"cpu_op","ts":1,"dur":1})";
    const std::string text = R"({"traceEvents": [)" + event + "," + event + "]}";
    EXPECT_THAT(
        read(text.substr(0, text.size() - 9)).problems,
        ElementsAre(::testing::AllOf(HasSubstr("[t.json] it ends at byte 91"), HasSubstr("1 event before it"))));
    const TraceEvents bad = read_events(event + R"(, {"ph": "X" "ts" 1}, )" + event + R"(, {"ph": "\xff"}, )" + event);
    EXPECT_EQ(bad.events.size(), 3u);
    EXPECT_THAT(bad.problems, ElementsAre(HasSubstr("could not be read, the first at byte 59")));
}

TEST(TraceFile, UnknownCategoriesAreCounted) {
    const TraceEvents trace = read_events(R"({"ph":"X","cat":"new_kind","ts":1,"dur":1},)"
                                          R"({"ph":"X","cat":"new_kind","ts":2,"dur":1},)"
                                          R"({"ph":"X","cat":"graph_event_node","ts":2,"dur":1},)"
                                          R"({"ph":"X","cat":"xpu_sync","ts":2,"dur":1})");
    EXPECT_THAT(trace.problems, ElementsAre(HasSubstr("2 events of the unknown category \"new_kind\"")));
    EXPECT_EQ(trace.events.size(), 4u);
}

TEST(TraceFile, UnknownCategoriesTakeABoundedMemory) {
    std::string events;
    for (int i = 0; i < 100; ++i) {
        events += (i == 0 ? "" : ",") + (R"({"ph":"X","ts":1,"dur":1,"cat":"k)" + std::to_string(i) + R"("})");
    }
    EXPECT_LE(read_events(events).problems.size(), 17u);
}

TEST(TraceFile, GzipIsReadAsFarAsItGoes) {
    std::string text = R"({"traceEvents": [)";
    for (int i = 0; i < 30000; ++i) {
        text += R"({"ph":"X","cat":"cpu_op","name":"n)" + std::to_string(i * 7919 % 30011) + R"(","ts":)" +
                std::to_string(i) + R"(,"dur":1},)";
    }
    text.back() = ']';
    text += '}';
    const std::span<const std::byte> bytes = as_bytes(text);
    const Buffer packed = gzip(std::span(&bytes, 1));
    EXPECT_EQ(read_trace_bytes(packed.bytes(), "t.gz").events.size(), 30000u);

    const TraceEvents half = read_trace_bytes(packed.bytes().first(packed.size() / 2), "t.gz");
    EXPECT_GT(half.events.size(), 10000u);
    EXPECT_LT(half.events.size(), 20000u);
    EXPECT_THAT(half.problems, ElementsAre(HasSubstr("gzip data ends early")));

    std::vector<std::byte> damaged(packed.bytes().begin(), packed.bytes().end());
    for (std::size_t i = damaged.size() / 2; i < damaged.size() / 2 + 64; ++i) {
        damaged[i] = std::byte{0xff};
    }
    const TraceEvents broken = read_trace_bytes(damaged, "t.gz");
    EXPECT_GT(broken.events.size(), 10000u);
    EXPECT_EQ(broken.problems.size(), 1u);
}

TEST(TraceFile, WhatIsNoTraceIsOneError) {
    for (const char* text : {"", "hello", "[]", R"({"nodes": []})"}) {
        EXPECT_THROW(read(text), DataError) << text;
    }
    const testing::TempDir folder;
    EXPECT_THROW(read_trace_file(folder.path() / "missing.json"), IoError);
}

}  // namespace
}  // namespace stoker
