// stoker runs list: oldest first, so that the newest is just above the prompt. Incomplete and damaged runs are listed
// too; their problems follow the table.
#include <unistd.h>

#include <algorithm>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <string_view>

#include "cli/commands/runs.h"
#include "cli/terminal/print.h"
#include "cli/terminal/table.h"

namespace stoker::cli {
namespace {

struct RunsListArguments {
    std::string folder = "runs";
    bool json = false;
};

std::vector<RunRecord> read_runs(const std::string& folder) {
    std::vector<RunRecord> runs;
    const FoundRuns found = find_runs(folder);
    for (const Unreadable& part : found.unreadable) {
        print_stderr("stoker: {} cannot be read and is left out ({})\n", for_terminal(part.folder.string(), 200),
                     part.reason);
    }
    for (const std::filesystem::path& path : found.paths) {
        RunRecord run = read_run(path, MetricLines::last_step);
        run.name = path.lexically_relative(folder).string();
        if (run.name == "." || run.name.empty()) {  // `folder` is itself a run
            std::error_code none;
            run.name = std::filesystem::canonical(path, none).filename().string();
        }
        runs.push_back(std::move(run));
    }
    std::ranges::stable_sort(runs, {}, &RunRecord::modified_ns);
    return runs;
}

std::string or_dash(const std::string& text) {
    return text.empty() ? "-" : for_terminal(text, 32);
}

// Under a heading that does not name it, the metric has its name.
std::string metric_cell(const EpochResult& epoch, const std::string& heading) {
    const auto metric = metric_of(epoch);
    return (metric && heading.empty() ? metric->name + " " : "") + value_text(metric);
}

void print_table(const std::vector<RunRecord>& runs) {
    const std::string metric = metric_name(runs);
    const auto columns = static_cast<std::size_t>(terminal_columns(STDOUT_FILENO).value_or(0));
    const std::size_t name_width = columns == 0 ? 40 : std::clamp<std::size_t>(columns / 3, 16, 40);
    Table table;
    for (const char* title : {"run", "model", "data"}) {
        table.column(title, Table::Align::left);
    }
    for (const std::string& title :
         {std::string("epochs"), std::string("train loss"), "val " + (metric.empty() ? "metric" : metric),
          std::string("images/s"), std::string("seconds")}) {
        table.column(title);
    }
    for (const char* title : {"device", "state", "last written"}) {
        table.column(title, Table::Align::left);
    }
    for (const RunRecord& run : runs) {
        const EpochResult* last = run.metrics.epochs.empty() ? nullptr : &run.metrics.epochs.back();
        table.row({for_terminal(run.name, name_width), or_dash(run.model()), or_dash(run.key("data.train")),
                   epochs_text(run), last == nullptr ? "-" : loss_text(last->train_loss),
                   last == nullptr ? "-" : metric_cell(*last, metric), rate_text(run.images_per_second()),
                   last == nullptr ? "-" : fmt::format("{:.1f}", run.seconds()), or_dash(run.device), state_text(run),
                   time_text(run.modified_ns)});
    }
    if (columns > 0) {
        constexpr std::string_view kLess[] = {"data",  "device",       "seconds",   "images/s",
                                              "model", "last written", "train loss"};
        table.fit(columns, kLess);
    }
    print_lines(table.text());
    print_problems(runs);
}

int run(const RunsListArguments& options) {
    const std::vector<RunRecord> runs = read_runs(options.folder);
    if (options.json) {
        nlohmann::ordered_json list = nlohmann::ordered_json::array();
        for (const RunRecord& record : runs) {
            list.push_back(run_json(record));
        }
        print_document({{"runs", list}});
    } else if (runs.empty()) {
        print_stdout("no runs below {}\n", for_terminal(options.folder, 200));
    } else {
        print_table(runs);
    }
    return 0;
}

}  // namespace

Command add_runs_list(CLI::App& app) {
    auto options = std::make_shared<RunsListArguments>();
    app.add_option("folder", options->folder, "search this folder and all folders below it (default: runs)")
        ->type_name("DIR");
    app.add_flag("--json", options->json, "one JSON document on stdout instead of the table");
    example(app,
            "  stoker runs list\n"
            "  stoker runs list experiments/2026 --json\n"
            "A narrow terminal shows fewer columns.");
    return [options] { return run(*options); };
}

}  // namespace stoker::cli
