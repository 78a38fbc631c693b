#include "stoker/diagnose/report/page_data.h"

#include <algorithm>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "stoker/base/pluralize.h"
#include "stoker/base/printable.h"
#include "stoker/base/shell_quote.h"
#include "stoker/base/utf8.h"
#include "stoker/diagnose/diagnose.h"
#include "stoker/diagnose/report/facts.h"
#include "stoker/diagnose/report/units.h"

namespace stoker {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostTextBytes = 4000;  // of sentences and fixes
constexpr std::size_t kMostFindings = 100;
constexpr std::size_t kMostProblems = 50;
constexpr std::size_t kMostRecipeKeys = 400;
constexpr std::size_t kMostRanks = 256;

std::string clipped(std::string_view text, std::size_t most) {
    if (text.size() <= most) {
        return std::string(text);
    }
    std::size_t end = 0;
    for (std::size_t next = 0; next <= most; next += std::max<std::size_t>(1, utf8_sequence(text.substr(next)))) {
        end = next;
    }
    return std::string(text.substr(0, end)) + "…";
}

std::string sentence(std::string_view text) {
    return shown_text(text, kMostTextBytes);
}

// [data]
// workers = 4
// Empty if the fix changes no key.
std::string recipe_lines(const Fix& fix) {
    std::vector<std::pair<std::string, std::string>> tables;  // header, lines; top-level keys come first
    for (const RecipeChange& change : fix.recipe) {
        const std::size_t dot = change.key.rfind('.');
        const std::string table = dot == std::string::npos ? "" : change.key.substr(0, dot);
        const std::string key = dot == std::string::npos ? change.key : change.key.substr(dot + 1);
        auto at = std::ranges::find(tables, table, &std::pair<std::string, std::string>::first);
        if (at == tables.end()) {
            at = tables.insert(table.empty() ? tables.begin() : tables.end(), {table, ""});
        }
        at->second += key + " = " + change.value + "\n";
    }
    std::string out;
    for (const auto& [table, lines] : tables) {
        out += (table.empty() ? "" : "[" + table + "]\n") + lines;
    }
    return out;
}

// --set data.workers=4 --set 'data.cache="ram"', safe for a POSIX shell.
std::string set_options(const Fix& fix) {
    std::string out;
    for (const RecipeChange& change : fix.recipe) {
        out += (out.empty() ? "--set " : " --set ") + quoted_for_shell(change.key + "=" + change.value);
    }
    return out;
}

Json fix_data(const Fix& fix) {
    const auto block = [](std::string_view text) { return printable_lines(clipped(text, kMostTextBytes)); };
    return {{"recipe", block(recipe_lines(fix))}, {"set", block(set_options(fix))}, {"code", block(fix.code)}};
}

bool has_fix(const Finding& finding) {
    return !finding.fix.recipe.empty() || !finding.fix.code.empty();
}

Json facts_data(const std::vector<Fact>& facts) {
    Json out = Json::array();
    for (const Fact& fact : facts) {
        out.push_back({shown_text(fact.name), shown_text(fact.text)});
    }
    return out;
}

Json finding_data(const Finding& finding, bool several_ranks) {
    std::vector<Fact> evidence;
    for (const Evidence& fact : finding.evidence) {
        evidence.push_back(evidence_fact(fact));
    }
    std::string where;
    if (finding.last_step > 0) {
        where = steps_text(finding);
    }
    if (several_ranks) {
        where += (where.empty() ? "" : ", ") + ranks_text(finding);
    }
    return {{"rule", shown_text(finding.rule)},
            {"severity", severity_name(finding.severity)},
            {"text", sentence(finding.text)},
            {"where", where},
            {"evidence", facts_data(evidence)},
            {"fix", has_fix(finding) ? fix_data(finding.fix) : Json(nullptr)},
            {"gain", gain_text(finding.gain)},
            {"gain_range", {finding.gain.low, finding.gain.expected, finding.gain.high}},
            {"confidence", percent_text(finding.confidence)}};
}

// "healthy", the severity of the verdict's finding, or "info" for a run that was not judged.
std::string badge_of(const Diagnosis& diagnosis) {
    if (diagnosis.verdict.rule == "healthy") {
        return "healthy";
    }
    const auto found = std::ranges::find(diagnosis.findings, diagnosis.verdict.rule, &Finding::rule);
    return std::string(severity_name(found == diagnosis.findings.end() ? Severity::info : found->severity));
}

// The first finding above `info` that can be acted on; null: there is none.
Json action_data(const Diagnosis& diagnosis) {
    for (std::size_t i = 0; i < std::min(diagnosis.findings.size(), kMostFindings); ++i) {
        const Finding& finding = diagnosis.findings[i];
        if (finding.severity != Severity::info && has_fix(finding)) {
            return i;
        }
    }
    return nullptr;
}

Json findings_data(const Report& report) {
    Json out = Json::array();
    for (const Finding& finding : report.diagnosis.findings) {
        if (out.size() == kMostFindings) {
            break;
        }
        out.push_back(finding_data(finding, report.records.ranks.size() > 1));
    }
    return out;
}

Json ranks_data(const RunRecords& records) {
    const std::size_t count = std::min(records.ranks.size(), kMostRanks);
    constexpr std::size_t kBars = 120;        // of a rank
    constexpr std::size_t kBarsOfAll = 2400;  // keeps the page small
    const std::size_t most = std::clamp<std::size_t>(kBarsOfAll / std::max<std::size_t>(count, 1), 10, kBars);
    Json out = Json::array();
    for (std::size_t i = 0; i < count; ++i) {
        out.push_back(rank_data(records.ranks[i], most));
    }
    return out;
}

Json problems_data(const Report& report) {
    Json out = Json::array();
    const auto& problems = report.records.problems;
    for (std::size_t i = 0; i < std::min(problems.size(), kMostProblems); ++i) {
        out.push_back(sentence(problems[i]));
    }
    const auto more = [&](std::size_t all, std::size_t shown, const char* what) {
        if (all > shown) {
            out.push_back(pluralize(static_cast<std::int64_t>(all - shown), std::string("more ") + what) +
                          " not shown on this page.");
        }
    };
    more(problems.size(), kMostProblems, "problem");
    more(report.diagnosis.findings.size(), kMostFindings, "finding");
    more(report.records.ranks.size(), kMostRanks, "rank");
    return out;
}

Json recipe_data(const RunRecords& records) {
    std::vector<Fact> keys;
    for (const auto& [key, value] : records.recipe) {
        if (keys.size() == kMostRecipeKeys) {
            break;
        }
        keys.push_back({key, value});
    }
    return facts_data(keys);
}

}  // namespace

std::string shown_text(std::string_view text, std::size_t most) {
    return printable(clipped(text, most));
}

Json page_data(const Report& report) {
    Json groups = Json::array();
    for (const FactGroup& group : fact_groups(report.records)) {
        groups.push_back({{"title", group.title}, {"facts", facts_data(group.facts)}});
    }
    return {{"title", shown_text(report.title)},
            {"kind", report.records.kind},
            {"recipe_first", report.diagnosis.recipe_first()},
            {"verdict",
             {{"rule", shown_text(report.diagnosis.verdict.rule)},
              {"text", sentence(report.diagnosis.verdict.text)},
              {"severity", badge_of(report.diagnosis)}}},
            {"action", action_data(report.diagnosis)},
            {"figures", facts_data(key_figures(report))},
            {"ranks", ranks_data(report.records)},
            {"timeline", timeline_data(report)},
            {"flame", flame_data(report)},
            {"operators", operators_data(report)},
            {"functions", functions_data(report)},
            {"memory", memory_data(report)},
            {"findings", findings_data(report)},
            {"facts", std::move(groups)},
            {"recipe", recipe_data(report.records)},
            {"problems", problems_data(report)}};
}

std::string script_json(const Json& json) {
    const std::string text = json.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
    std::string out;
    out.reserve(text.size());
    for (const char c : text) {
        if (c == '<') {
            out += "\\u003c";
        } else {
            out += c;
        }
    }
    return out;
}

}  // namespace stoker
