// The page as text: foreign text stays data, sizes are bounded, and the JSON in it says what the records say.
#include "stoker/diagnose/report/html_report.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>
#include <string>

#include "diagnose/report/sample_report.h"

namespace stoker {
namespace {

using nlohmann::json;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

constexpr std::string_view kDataTag = R"(<script type="application/json" id="data">)";

std::string data_text(const std::string& html) {
    const std::size_t start = html.find(kDataTag) + kDataTag.size();
    return html.substr(start, html.find("</script>", start) - start);
}

json data_of(const Report& report) {
    return json::parse(data_text(report_html(report)));
}

std::size_t occurrences(const std::string& text, std::string_view part) {
    std::size_t count = 0;
    for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
        ++count;
    }
    return count;
}

TEST(Report, ForeignTextIsDataOnly) {
    const std::string html = report_html(sample_report());
    EXPECT_THAT(html, Not(HasSubstr("<img")));
    EXPECT_EQ(occurrences(html, "<script"), 2U) << "the data and our script";
    EXPECT_EQ(occurrences(html, "</script>"), 2U);
    const std::string data = data_text(html);
    EXPECT_THAT(data, Not(HasSubstr("<")));
    for (const char c : data) {
        ASSERT_TRUE(c >= 0x20 && c < 0x7f) << static_cast<int>(c);
    }
    const json page = json::parse(data);
    EXPECT_THAT(page["title"], HasSubstr("</script><img src=x"));
    EXPECT_THAT(page["title"], HasSubstr(R"(\u2028\u202egpj.\xff)")) << "what would turn the text around is shown";
    EXPECT_THAT(page["findings"][1]["text"], HasSubstr(R"(\u202egpj.)"));
    EXPECT_THAT(page["timeline"]["names"], Contains(HasSubstr(R"(\u202egpj.)")));
    EXPECT_EQ(page["findings"][1]["fix"]["code"], "if step % 50 == 0:\n    print(loss.item())");
}

TEST(Report, OpensNoNetworkAndRunsOurScriptOnly) {
    const std::string html = report_html(sample_report());
    // No EXPECT_THAT, which would print the page.
    EXPECT_TRUE(
        testing::Value(html, testing::ContainsRegex("default-src 'none'; script-src 'sha256-[A-Za-z0-9+/]{43}='; "
                                                    "style-src 'sha256-[A-Za-z0-9+/]{43}='")));
    for (const char* way_out :
         {"https://", "http://", "@import", "url(", "fetch(", "XMLHttpRequest", "innerHTML", "eval("}) {
        const std::size_t allowed = std::string_view(way_out) == "http://" ? 1 : 0;  // the name of SVG
        EXPECT_EQ(occurrences(html, way_out), allowed) << way_out;
    }
}

TEST(Report, IsSmallForAThousandSteps) {
    EXPECT_LT(report_html(sample_report()).size(), 300'000U);
}

TEST(Report, DoesNotGrowWithTheRun) {
    Report report = ranks_report();
    for (RankRecords& rank : report.records.ranks) {
        rank.steps = sample_steps(20'000, 5e3);
    }
    for (int rank = 4; rank < 300; ++rank) {
        report.records.ranks.push_back(sample_rank(rank, 200, 9e3));
    }
    for (int i = 0; i < 50'000; ++i) {
        report.timeline.push_back(
            {.lane = fmt::format("lane {}", i % 100), .name = "span", .start_us = i * 20.0, .duration_us = 15});
    }
    for (int i = 0; i < 2'000; ++i) {
        report.operators.push_back({.name = std::string(5000, 'n') + std::to_string(i), .count = 1, .self_us = 1});
        report.records.problems.emplace_back(5000, 'p');
        report.records.recipe[std::to_string(i)] = std::string(5000, 'v');
    }
    report.diagnosis.findings.resize(1000, report.diagnosis.findings[1]);
    EXPECT_LT(report_html(report).size(), 3'000'000U);
}

TEST(Report, SharesSumToAHundredPercentAndUnmeasuredIsShown) {
    Report report = sample_report();
    report.records.ranks[0].steps.clear();
    StepEntry step{.step = 1};
    for (const Phase phase : {Phase::wait, Phase::forward, Phase::backward}) {
        step.host.times[static_cast<std::size_t>(phase)] = micros(1000);
    }
    report.records.ranks[0].steps = {step};
    const json shares = data_of(report)["ranks"][0]["shares"];
    int sum = 0;
    for (const json& share : shares) {
        sum += share[1].get<int>();
    }
    EXPECT_EQ(sum, 1000) << "tenths of a percent: 33.4 + 33.3 + 33.3";
    EXPECT_EQ(shares.back(), (json{"unmeasured", 0, 0.0}));
}

TEST(Report, TheFirstFindingThatCanBeActedOnIsWhatToDo) {
    Report report = sample_report();
    json data = data_of(report);
    EXPECT_EQ(data["action"], 0);
    EXPECT_EQ(data["verdict"]["severity"], "critical");
    EXPECT_EQ(data["findings"][0]["fix"]["recipe"], "seed = 7\n[data]\nworkers = 7\ncache = \"ram\"\n");
    EXPECT_EQ(data["findings"][0]["fix"]["set"], "--set data.workers=7 --set 'data.cache=\"ram\"' --set seed=7");
    EXPECT_EQ(data["findings"][0]["gain"], "1.9× the throughput (1.5× to 2.05×)");
    EXPECT_EQ(data["findings"][2]["fix"], nullptr);
    report.diagnosis.findings[0].fix = {};
    EXPECT_EQ(data_of(report)["action"], 1);
    report.diagnosis.findings[1].fix = {};
    EXPECT_EQ(data_of(report)["action"], nullptr);
}

TEST(Report, RecordsAloneMakeAPage) {
    const json data = data_of(records_report());
    EXPECT_EQ(data["verdict"]["severity"], "healthy");
    for (const char* absent : {"timeline", "flame", "operators", "action"}) {
        EXPECT_EQ(data[absent], nullptr) << absent;
    }
    EXPECT_EQ(data["memory"]["x"], "step");
    EXPECT_EQ(data["memory"]["curves"].size(), 2U);
    EXPECT_EQ(data["ranks"][0]["queue"]["empty"], 0);
    EXPECT_EQ(data["ranks"][0]["workers"]["on_device"], 0);
    Report report = records_report();
    report.records.ranks[0].intervals[0].workers->on_device = 64;
    EXPECT_EQ(data_of(report)["ranks"][0]["workers"]["on_device"], 64);
    EXPECT_EQ(data_of({.records = {.ranks = {RankRecords{}}}})["ranks"][0]["shares"], nullptr);
    EXPECT_TRUE(data_of({})["ranks"].empty());
}

TEST(Report, OperatorsOfTheRecordsAreUsedWhereNoTableIsGiven) {
    Report report = records_report();
    report.records.ranks[0].profile = ProfileEntry{.operators = {{.name = "aten::mm", .count = 3, .self_us = 5}}};
    EXPECT_EQ(data_of(report)["operators"]["tables"][0]["rows"][0][3], 3);
}

TEST(Report, ARunThatIsTooShortIsNotCalledHealthy) {
    Report report = records_report();
    report.diagnosis.verdict = {.rule = "too-short", .text = "3 steps were recorded"};
    EXPECT_EQ(data_of(report)["verdict"]["severity"], "info");
}

TEST(Report, AFindingNamesItsRanks) {
    Report report = ranks_report();
    report.diagnosis.findings.resize(1);
    report.diagnosis.findings[0].ranks = {0, 1, 2, 3};
    EXPECT_THAT(data_of(report)["findings"][0]["where"], HasSubstr("ranks 0 to 3"));
    report.diagnosis.findings[0].ranks = {0, 3};
    EXPECT_THAT(data_of(report)["findings"][0]["where"], HasSubstr("ranks 0, 3"));
}

}  // namespace
}  // namespace stoker
