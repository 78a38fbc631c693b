#include "cli/commands/comparison_text.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <vector>

#include "cli/terminal/table.h"
#include "stoker/base/pluralize.h"
#include "stoker/diagnose/report/units.h"

namespace stoker::cli {
namespace {

std::string seconds_text(double seconds) {
    return duration_text(1e6 * seconds);
}

std::string signed_text(double seconds) {
    const std::string text = seconds_text(std::abs(seconds));
    return (seconds < 0 ? "-" : seconds > 0 ? "+" : "") + text;
}

std::string side_text(const char* letter, const std::string& name, const MeasuredSide& side) {
    std::string text = fmt::format("{}  {}: {} of {}", letter, name, pluralize(side.judged.steps, "step"),
                                   seconds_text(side.seconds_per_step));
    if (side.samples_per_step && side.seconds_per_step > 0) {
        text += fmt::format(", {} samples a second", number_text(*side.samples_per_step / side.seconds_per_step));
    }
    return text + "\n";
}

std::string change_text(const Interval& change) {
    return change.known() ? fmt::format("{} to {}", signed_text(change.low), signed_text(change.high)) : "";
}

std::string phases_text(const Comparison& comparison) {
    if (comparison.phases.empty()) {
        return {};
    }
    Table table;
    table.column(comparison.per_sample ? "for the samples of a step of A" : "in a step", Table::Align::left);
    table.column("A");
    table.column("B");
    table.column("B - A");
    table.column("95 % interval");
    double a = 0;
    double b = 0;
    for (const PhaseChange& change : comparison.phases) {
        a += change.a;
        b += change.b;
        table.row({fmt::format("  {}", phase_name(change.phase)), seconds_text(change.a), seconds_text(change.b),
                   signed_text(change.b - change.a), change_text(change.change)});
    }
    table.row({"  all", seconds_text(a), seconds_text(b), signed_text(b - a), ""});
    return "\n" + table.text();
}

std::string stages_text(const Comparison& comparison) {
    if (comparison.stages.empty()) {
        return {};
    }
    Table table;
    table.column("a worker, for a sample", Table::Align::left);
    table.column("A");
    table.column("B");
    table.column("B - A");
    for (const StageChange& change : comparison.stages) {
        table.row({fmt::format("  {}", stage_name(change.stage)), duration_text(change.a), duration_text(change.b),
                   signed_text((change.b - change.a) / 1e6)});
    }
    return "\n" + table.text();
}

std::string phases_of(const FactRow& row) {
    constexpr int kMost = 4;
    if (row.phases.size() > kMost) {
        return "most phases";
    }
    std::vector<std::string_view> names;
    for (std::size_t i = 0; i < kPhases; ++i) {
        if (row.phases.has(static_cast<Phase>(i))) {
            names.push_back(phase_name(static_cast<Phase>(i)));
        }
    }
    return fmt::format("{}", fmt::join(names, ", "));
}

std::string differences_text(const Comparison& comparison) {
    constexpr std::size_t kMost = 20;
    constexpr std::size_t kWidth = 28;
    constexpr std::size_t kNameWidth = 50;
    const std::vector<RankedDifference>& all = comparison.differences;
    if (all.empty()) {
        return "\nno fact of the records differs\n";
    }
    Table table;
    table.column(comparison.causes.empty() ? "what differs" : "what differs, causes (*) first", Table::Align::left);
    table.column("A", Table::Align::left);
    table.column("B", Table::Align::left);
    table.column("changes", Table::Align::left);
    const auto add = [&](std::size_t i) {
        const Difference& difference = all[i].difference;
        const bool is_cause = std::ranges::find(comparison.causes, i) != comparison.causes.end();
        std::vector<std::string> values = {difference.a.empty() ? "none" : difference.a,
                                           difference.b.empty() ? "none" : difference.b};
        values = for_comparison(values, kWidth);
        table.row({fmt::format("{} {}", is_cause ? "*" : " ", for_terminal(difference.name, kNameWidth)), values[0],
                   values[1], phases_of(*difference.row)});
    };
    for (const std::size_t cause : comparison.causes) {
        add(cause);
    }
    for (std::size_t i = 0; i < std::min(kMost, all.size()); ++i) {
        if (std::ranges::find(comparison.causes, i) == comparison.causes.end()) {
            add(i);
        }
    }
    const auto left = std::ssize(all) - static_cast<std::ptrdiff_t>(kMost);
    return "\n" + table.text() + (left > 0 ? fmt::format("  {} more in --json\n", left) : "");
}

std::string findings_text(const char* title, const std::vector<Finding>& findings) {
    std::string text;
    for (const Finding& finding : findings) {
        text += fmt::format("  {} ({}): {}\n", finding.rule, severity_name(finding.severity), finding.text);
    }
    return text.empty() ? text : fmt::format("\n{}\n{}", title, text);
}

}  // namespace

std::string comparison_text(const Comparison& comparison, const std::string& a, const std::string& b) {
    std::string text = comparison.verdict + "\n\n" + side_text("A", a, comparison.a) + side_text("B", b, comparison.b);
    text += phases_text(comparison) + stages_text(comparison) + differences_text(comparison);
    text += findings_text("rules that fire in B alone", comparison.new_findings);
    text += findings_text("rules that fire in A alone", comparison.gone_findings);
    for (std::size_t i = 0; i < comparison.notes.size(); ++i) {
        text += (i == 0 ? "\n" : "") + comparison.notes[i] + "\n";
    }
    return text;
}

}  // namespace stoker::cli
