#include "engine/commands/profile_report.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fmt/format.h>
#include <vector>

#include "cli/command.h"
#include "cli/commands/diagnosis_text.h"
#include "cli/terminal/table.h"
#include "stoker/base/byte_text.h"
#include "stoker/base/pluralize.h"

namespace stoker::cli {
namespace {

std::string milliseconds(double us) {
    return fmt::format("{:.3f}", us / 1e3);
}

// 1234567890 as "1.23 G".
std::string short_count(double value) {
    constexpr std::array kUnits = {"", " k", " M", " G", " T", " P"};
    std::size_t unit = 0;
    for (; value >= 1000 && unit + 1 < kUnits.size(); ++unit) {
        value /= 1000;
    }
    return unit == 0 ? fmt::format("{:.0f}", value) : fmt::format("{:.2f}{}", value, kUnits[unit]);
}

struct Column {
    const char* title;
    bool shown;
    std::string (*cell)(const OperatorStats&);
};

}  // namespace

void add_operator_table_options(CLI::App& app, OperatorTableOptions& options) {
    app.add_option("--sort", options.sort, "the column of the operator table to sort by")
        ->capture_default_str()
        ->check(CLI::IsMember({"self", "total", "device", "memory", "flops", "count", "name"}));
    app.add_option("--group-by", options.group_by, "what makes a row of that table")
        ->capture_default_str()
        ->check(CLI::IsMember({"name", "shape", "stack"}));
    add_number(app, "--rows", options.rows, "rows of that table to print", 0, 100'000);
}

std::string operator_table(const ProfiledRun& run, const OperatorTableOptions& options) {
    constexpr std::size_t kWidest = 60;
    std::vector<OperatorStats> rows = key_averages(run.profile, run.nodes, *group_by(options.group_by));
    sort_operators(rows, *operator_column(options.sort));
    const auto any = [&](auto member) {
        return std::ranges::any_of(rows, [&](const auto& row) { return row.*member != 0; });
    };
    const std::vector<Column> columns = {
        {"calls", true, [](const OperatorStats& row) { return with_commas(static_cast<double>(row.count)); }},
        {"self ms", true, [](const OperatorStats& row) { return milliseconds(row.self_us); }},
        {"total ms", true, [](const OperatorStats& row) { return milliseconds(row.total_us); }},
        {"device ms", any(&OperatorStats::device_us),
         [](const OperatorStats& row) { return milliseconds(row.device_us); }},
        {"self memory", any(&OperatorStats::self_bytes),
         [](const OperatorStats& row) {
             return (row.self_bytes < 0 ? "-" : "") + byte_text(std::abs(row.self_bytes));
         }},
        {"FLOPs", any(&OperatorStats::flops),
         [](const OperatorStats& row) { return row.flops == 0 ? "-" : short_count(static_cast<double>(row.flops)); }}};
    Table table;
    table.column("operator", Table::Align::left);
    for (const Column& column : columns) {
        if (column.shown) {
            table.column(column.title);
        }
    }
    const bool shapes = options.group_by == "shape";
    const bool stacks = options.group_by == "stack";
    if (shapes || stacks) {
        table.column(shapes ? "shapes" : "within", Table::Align::left);
    }
    const std::size_t shown = std::min(rows.size(), static_cast<std::size_t>(options.rows));
    for (std::size_t i = 0; i < shown; ++i) {
        std::vector<std::string> cells{for_terminal(rows[i].name, kWidest)};
        for (const Column& column : columns) {
            if (column.shown) {
                cells.push_back(column.cell(rows[i]));
            }
        }
        if (shapes || stacks) {
            cells.push_back(for_terminal(shapes ? rows[i].shapes : rows[i].stack, kWidest));
        }
        table.row(cells);
    }
    const std::string hint =
        run.result.compiled == "fused"
            ? "the step is fused and has no operators: those of evaluations are listed, if any; --set "
              "train.compile=none also profiles the step\n"
            : "";
    if (rows.empty()) {
        return "\nno operator of LibTorch ran in the recorded steps\n" + hint;
    }
    std::string text =
        fmt::format("\noperators of {}\n{}", pluralize(run.profile.recorded_steps(), "step"), table.text());
    if (shown < rows.size()) {
        text += fmt::format("and {} more; --rows shows them\n", with_commas(static_cast<double>(rows.size() - shown)));
    }
    return text + hint;
}

std::string profile_report(const ProfiledRun& run, const Diagnosis& diagnosis, const OperatorTableOptions& options,
                           std::span<const ProfileFile> files) {
    std::string text = diagnosis_text(run.records, diagnosis) + operator_table(run, options) + "\n";
    for (const ProfileFile& file : files) {
        text += fmt::format("{}: {}\n", file.path.string(), file.purpose);
    }
    return text;
}

}  // namespace stoker::cli
