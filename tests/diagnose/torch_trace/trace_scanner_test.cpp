// Parts of a trace's JSON, whole and damaged, and across the edges of the window.
#include "stoker/diagnose/torch_trace/trace_scanner.h"

#include <gmock/gmock.h>
#include <string>
#include <vector>

#include "stoker/base/file.h"

namespace stoker {
namespace {

using ::testing::ElementsAre;

struct Cut {
    std::vector<std::string> events;
    std::vector<std::string> members;
    bool has_events = false;
    bool complete = false;
    std::int64_t broken = 0;
    std::uint64_t first_broken = 0;
};

Cut cut(const std::string& text) {
    TraceBytes bytes(as_bytes(text));
    TraceScanner scanner(bytes);
    Cut out;
    for (TraceScanner::Part part = scanner.next(); part.kind != TraceScanner::Kind::end; part = scanner.next()) {
        if (part.kind == TraceScanner::Kind::event) {
            EXPECT_EQ(text.substr(part.offset, part.text.size()), part.text);
            out.events.emplace_back(part.text);
        } else {
            out.members.push_back(std::string(part.key) + "=" + std::string(part.text));
        }
    }
    out.has_events = scanner.has_events();
    out.complete = scanner.complete();
    out.broken = scanner.broken();
    out.first_broken = scanner.first_broken();
    return out;
}

TEST(TraceScanner, CutsEventsAndMembers) {
    const Cut parts =
        cut(R"( {"a": 1, "b": [{"c": "]"}], "traceEvents": [ {"x": "}{\"\\"} ,{"y":{"z":[1]}}], "d": "e"} )");
    EXPECT_THAT(parts.events, ElementsAre(R"({"x": "}{\"\\"})", R"({"y":{"z":[1]}})"));
    EXPECT_THAT(parts.members, ElementsAre("a=1", R"(b=[{"c": "]"}])", R"(d="e")"));
    EXPECT_TRUE(parts.complete);
    EXPECT_EQ(parts.broken, 0);
}

TEST(TraceScanner, EventsMayCrossTheWindow) {
    const std::string name(3000, 'n');
    std::string text = R"({"traceEvents": [)";
    std::size_t count = 0;
    for (; text.size() < (std::size_t{9} << 20); ++count) {
        text += (count == 0 ? "" : ",") + std::string(R"({"name": ")") + name + R"(\\\"", "i": )" +
                std::to_string(count) + "}";
    }
    const Cut parts = cut(text + "]}");
    ASSERT_EQ(parts.events.size(), count);
    EXPECT_TRUE(parts.events.back().ends_with(R"("i": )" + std::to_string(count - 1) + "}"));
    EXPECT_TRUE(parts.complete);
}

TEST(TraceScanner, ACutFileGivesTheEventsBefore) {
    const Cut parts = cut(R"({"traceEvents": [{"a": 1}, {"b": "x)");
    EXPECT_THAT(parts.events, ElementsAre(R"({"a": 1})"));
    EXPECT_TRUE(parts.has_events);
    EXPECT_FALSE(parts.complete);
}

TEST(TraceScanner, ReadingResumesAfterDamage) {
    const std::string good = R"({"ph": "X", "i": 2})";
    std::string damaged = R"({"ph": "X", "name": "ab)";
    damaged += std::string(100, '\0') + R"("}, )";
    const std::string text = R"({"traceEvents": [{"ph": "X", "i": 1}, )" + damaged + good + "]}";
    const Cut parts = cut(text);
    EXPECT_THAT(parts.events, ElementsAre(R"({"ph": "X", "i": 1})", good));
    EXPECT_EQ(parts.broken, 1);
    EXPECT_EQ(parts.first_broken, text.find('\0'));
    EXPECT_TRUE(parts.complete);
}

TEST(TraceScanner, AnEventWithoutItsEndCostsOneEvent) {
    const std::string good = R"({"ph": "X", "args": {"a": [1]}})";
    for (const char* damage : {R"({"ph": "X", "args": {"a")", R"({"ph": "X"}]]}, "x)", R"({"ph": "X", "args": [[)"}) {
        const Cut parts = cut(R"({"traceEvents": [)" + good + "," + damage + ",\n" + good + "," + good + "]}");
        EXPECT_GE(parts.events.size(), 3u) << damage;
        EXPECT_EQ(parts.events.back(), good) << damage;
        EXPECT_EQ(parts.broken, 1) << damage;
        EXPECT_TRUE(parts.complete) << damage;
    }
}

TEST(TraceScanner, AnEventBeyondTheLimitIsDropped) {
    const std::string huge(TraceScanner::kMaxPart + 10, 'x');
    const Cut parts = cut(R"({"traceEvents": [{"a": ")" + huge + R"("}, {"ph": 1}], "b": ")" + huge + R"("})");
    EXPECT_THAT(parts.events, ElementsAre(R"({"ph": 1})"));
    EXPECT_THAT(parts.members, ElementsAre("b="));
    EXPECT_EQ(parts.broken, 1);
    EXPECT_TRUE(parts.complete);
}

TEST(TraceScanner, OtherTextIsNoTrace) {
    for (const char* text : {"", "[1]", "import os", "{", "{}", R"({"traceEvents": 5})", "{\"a\" 1}"}) {
        EXPECT_FALSE(cut(text).has_events) << text;
    }
}

}  // namespace
}  // namespace stoker
