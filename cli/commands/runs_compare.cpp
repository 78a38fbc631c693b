// stoker runs compare: the recipe keys in which runs differ, and their results. Ratios are to the first run.
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <set>

#include "cli/commands/runs.h"
#include "cli/terminal/output_path.h"
#include "cli/terminal/print.h"
#include "cli/terminal/table.h"
#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/base/json_depth.h"
#include "stoker/diagnose/comparison/comparison.h"
#include "stoker/diagnose/run_reader.h"
#include "stoker/track/curves.h"

namespace stoker::cli {
namespace {

using Json = nlohmann::ordered_json;

struct RunsCompareArguments {
    std::vector<std::string> runs;
    std::string out;
    bool json = false;
};

// Runs are named by their folder names if these differ, else by their paths.
std::vector<RunRecord> read_runs(const RunsCompareArguments& options) {
    if (options.runs.size() > kMaxCurveRuns) {
        throw InvalidArgument({.where = "runs compare",
                               .expected = fmt::format("at most {} runs", kMaxCurveRuns),
                               .got = fmt::to_string(options.runs.size())});
    }
    const MetricLines lines = options.out.empty() ? MetricLines::last_step : MetricLines::curves;
    std::vector<RunRecord> runs;
    std::set<std::string> names;
    for (const std::string& path : options.runs) {
        runs.push_back(open_run(path, lines));
        std::error_code none;
        runs.back().name = std::filesystem::weakly_canonical(path, none).filename().string();
        names.insert(runs.back().name);
    }
    for (RunRecord& run : runs) {
        run.name = names.size() == runs.size() ? run.name : run.path.lexically_normal().string();
    }
    return runs;
}

std::vector<DifferingKey> differences(const std::vector<RunRecord>& runs) {
    std::vector<RecipeKeys> recipes;
    for (const RunRecord& run : runs) {
        recipes.push_back(run.recipe);
    }
    return differing_keys(recipes);
}

// How the steps of each run compare with those of the first, as `stoker diagnose FIRST RUN` says it; none for the
// first.
std::vector<std::optional<Comparison>> speeds(const std::vector<RunRecord>& runs) {
    std::vector<std::optional<Comparison>> out(runs.size());
    const RunRecords first = read_run_records(runs.front().path);
    for (std::size_t i = 1; i < runs.size(); ++i) {
        out[i] = compare(first, read_run_records(runs[i].path));
    }
    return out;
}

// ---- JSON ----

// `value` of each run divided by the first run's; null if either is missing.
template <typename Value>
Json ratios(const std::vector<RunRecord>& runs, Value value) {
    Json list = Json::array();
    for (const RunRecord& run : runs) {
        const double ratio = value(run) / value(runs.front());
        list.push_back(std::isfinite(ratio) && ratio > 0 ? Json(ratio) : Json(nullptr));
    }
    return list;
}

Json document(const std::vector<RunRecord>& runs) {
    Json list = Json::array();
    for (const RunRecord& run : runs) {
        Json entry = run_json(run);
        entry["epochs"] = epochs_json(run);
        list.push_back(entry);
    }
    Json recipe = Json::object();
    for (const DifferingKey& differing : differences(runs)) {
        Json values = Json::array();
        for (std::size_t i = 0; i < runs.size(); ++i) {
            const bool there = runs[i].recipe.contains(differing.key);
            values.push_back(there ? Json(differing.values[i]) : Json(nullptr));
        }
        recipe[differing.key] = values;
    }
    Json speed = Json::array();
    for (const std::optional<Comparison>& comparison : speeds(runs)) {
        speed.push_back(comparison ? parse_json<Json>(to_json(*comparison, std::nullopt)) : Json(nullptr));
    }
    return {{"runs", list},
            {"recipe", recipe},
            {"speed", speed},
            {"ratios",
             {{"images_per_second", ratios(runs, [](const RunRecord& run) { return run.images_per_second(); })},
              {"seconds", ratios(runs, [](const RunRecord& run) { return run.seconds(); })}}}};
}

// ---- text ----

Table with_columns(const std::vector<RunRecord>& runs, const char* first, Table::Align align) {
    Table table;
    table.column(first, Table::Align::left);
    for (const RunRecord& run : runs) {
        table.column(for_terminal(run.name, 28), align);
    }
    return table;
}

template <typename Cell>
void add_row(Table& table, const std::vector<RunRecord>& runs, const char* name, Cell cell) {
    std::vector<std::string> cells = {name};
    for (const RunRecord& run : runs) {
        cells.push_back(cell(run));
    }
    table.row(cells);
}

std::string with_ratio(const std::string& text, double value, double first, bool is_first) {
    const double ratio = value / first;
    if (is_first || !std::isfinite(ratio) || ratio <= 0) {
        return text;
    }
    constexpr double kFewDigits = 0.095;  // "0.0025x" where "0.00x" would say nothing
    return fmt::format("{} ({}x)", text, ratio < kFewDigits ? number_text(ratio) : fmt::format("{:.2f}", ratio));
}

std::string metric_title(const std::string& name) {
    return "val " + (name.empty() ? "metric" : name);
}

std::string of_last_epoch(const RunRecord& run, std::string (*text)(const EpochResult&)) {
    return run.metrics.epochs.empty() ? "-" : text(run.metrics.epochs.back());
}

// With its name if the runs have different metrics.
std::string metric_text(const std::optional<Metric>& metric, bool named) {
    return (metric && named ? metric->name + " " : "") + value_text(metric);
}

std::optional<Metric> best_metric(const RunRecord& run) {
    std::optional<Metric> best;
    for (const EpochResult& epoch : run.metrics.epochs) {
        const auto metric = metric_of(epoch);
        const bool finite = metric && std::isfinite(metric->value);
        best = finite && (!best || metric->better_than(*best)) ? metric : best;
    }
    return best;
}

void print_results(const std::vector<RunRecord>& runs) {
    Table table = with_columns(runs, "run", Table::Align::right);
    const RunRecord& first = runs.front();
    add_row(table, runs, "state", state_text);
    add_row(table, runs, "epochs", epochs_text);
    add_row(table, runs, "device",
            [](const RunRecord& run) { return run.device.empty() ? "-" : for_terminal(run.device, 28); });
    const std::string metric = metric_name(runs);
    add_row(table, runs, metric_title(metric).c_str(), [&](const RunRecord& run) {
        return run.metrics.epochs.empty() ? "-" : metric_text(metric_of(run.metrics.epochs.back()), metric.empty());
    });
    add_row(table, runs, "  best epoch",
            [&](const RunRecord& run) { return metric_text(best_metric(run), metric.empty()); });
    add_row(table, runs, "val loss", [](const RunRecord& run) {
        return of_last_epoch(run, [](const EpochResult& epoch) { return loss_text(epoch.val_loss.value_or(NAN)); });
    });
    add_row(table, runs, "train loss", [](const RunRecord& run) {
        return of_last_epoch(run, [](const EpochResult& epoch) { return loss_text(epoch.train_loss); });
    });
    add_row(table, runs, "images/s", [&](const RunRecord& run) {
        return with_ratio(rate_text(run.images_per_second()), run.images_per_second(), first.images_per_second(),
                          &run == &first);
    });
    add_row(table, runs, "seconds", [&](const RunRecord& run) {
        return with_ratio(fmt::format("{:.1f}", run.seconds()), run.seconds(), first.seconds(), &run == &first);
    });
    print_lines(table.text());
}

void print_recipes(const std::vector<RunRecord>& runs) {
    const std::vector<DifferingKey> differing = differences(runs);
    if (differing.empty()) {
        const bool all = std::ranges::none_of(runs, [](const RunRecord& run) { return run.recipe.empty(); });
        print_stdout("\n{}\n", all ? "the recipes are the same" : "the recipes that could be read are the same");
        return;
    }
    Table table = with_columns(runs, "recipe keys that differ", Table::Align::left);
    for (const DifferingKey& key : differing) {
        std::vector<std::string> values;
        for (std::size_t i = 0; i < runs.size(); ++i) {
            if (runs[i].recipe.contains(key.key)) {
                values.push_back(key.values[i].empty() ? "\"\"" : key.values[i]);
            }
        }
        values = for_comparison(values, 40);
        std::vector<std::string> cells = {for_terminal(key.key, 40)};
        auto value = values.begin();
        for (const RunRecord& run : runs) {
            cells.push_back(run.recipe.contains(key.key) ? *value++ : "-");
        }
        table.row(cells);
    }
    print_lines("\n" + table.text());
}

// All epochs of the runs, or 20 spread evenly from the first to the last.
std::vector<std::int64_t> shown_epochs(const std::vector<RunRecord>& runs) {
    constexpr std::size_t kMaxRows = 20;
    std::set<std::int64_t> known;
    for (const RunRecord& run : runs) {
        for (const EpochResult& epoch : run.metrics.epochs) {
            known.insert(epoch.epoch);
        }
    }
    const std::vector<std::int64_t> all(known.begin(), known.end());
    std::vector<std::int64_t> shown;
    for (std::size_t i = 0; i < std::min(all.size(), kMaxRows); ++i) {
        shown.push_back(all[all.size() <= kMaxRows ? i : i * (all.size() - 1) / (kMaxRows - 1)]);
    }
    return shown;
}

void print_epochs(const std::vector<RunRecord>& runs, const char* title, std::string (*text)(const EpochResult&)) {
    const std::vector<std::int64_t> shown = shown_epochs(runs);
    if (shown.empty()) {
        return;
    }
    Table table = with_columns(runs, title, Table::Align::right);
    for (const std::int64_t number : shown) {
        add_row(table, runs, fmt::format("  epoch {}", number).c_str(), [&](const RunRecord& run) {
            const auto epoch = std::ranges::find(run.metrics.epochs, number, &EpochResult::epoch);
            return epoch == run.metrics.epochs.end() ? "" : text(*epoch);
        });
    }
    print_lines("\n" + table.text());
}

// Prints a line for each run whose steps are recorded.
void print_speeds(const std::vector<RunRecord>& runs) {
    const std::vector<std::optional<Comparison>> all = speeds(runs);
    std::string text;
    for (std::size_t i = 1; i < runs.size(); ++i) {
        if (all[i]->a.judged.steps > 0 && all[i]->b.judged.steps > 0) {
            text += fmt::format("{} (B) and {} (A): {}\n", runs[i].name, runs.front().name, all[i]->verdict);
        }
    }
    if (!text.empty()) {
        print_lines("\n" + text);
    }
}

void print_report(const std::vector<RunRecord>& runs) {
    print_results(runs);
    print_speeds(runs);
    print_recipes(runs);
    print_epochs(runs, metric_title(metric_name(runs)).c_str(),
                 [](const EpochResult& epoch) { return value_text(metric_of(epoch)); });
    print_epochs(runs, "val loss", [](const EpochResult& epoch) { return loss_text(epoch.val_loss.value_or(NAN)); });
    print_epochs(runs, "train loss", [](const EpochResult& epoch) { return loss_text(epoch.train_loss); });
    print_epochs(runs, "seconds", [](const EpochResult& epoch) { return fmt::format("{:.2f}", epoch.seconds); });
    print_problems(runs);
}

int run(const RunsCompareArguments& options) {
    if (!options.out.empty()) {
        require_svg_name("-o", options.out);
        require_writable_file(options.out);
    }
    const std::vector<RunRecord> runs = read_runs(options);
    if (!options.out.empty()) {
        std::vector<CurveRun> curves;
        for (const RunRecord& record : runs) {
            curves.push_back({.name = record.name, .metrics = record.metrics});
        }
        write_file(options.out, curves_svg(curves));
    }
    if (options.json) {
        print_document(document(runs));
    } else {
        print_report(runs);
    }
    return 0;
}

}  // namespace

Command add_runs_compare(CLI::App& app) {
    auto options = std::make_shared<RunsCompareArguments>();
    app.add_option("runs", options->runs, "two or more run folders; ratios are to the first")
        ->required()
        ->expected(2, -1)
        ->type_name("RUN");
    app.add_option("-o,--out", options->out, "draw the curves of all runs into this file")->type_name("FILE.svg");
    app.add_flag("--json", options->json, "one JSON document on stdout instead of the tables");
    example(app, "  stoker runs compare runs/first runs/second -o compare.svg");
    return [options] { return run(*options); };
}

}  // namespace stoker::cli
