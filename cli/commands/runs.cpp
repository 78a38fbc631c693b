// stoker runs: lists runs, compares them, exports one for TensorBoard or as SVG.
#include "cli/commands/runs.h"

#include <cmath>
#include <ctime>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <utility>

#include "cli/terminal/accuracy.h"
#include "cli/terminal/print.h"
#include "cli/terminal/table.h"
#include "stoker/base/error.h"
#include "stoker/base/pluralize.h"
#include "stoker/base/suggest.h"

namespace stoker::cli {
namespace {

using Json = nlohmann::ordered_json;

Json or_null(const std::string& text) {
    return text.empty() ? Json(nullptr) : Json(text);
}

template <typename T>
Json or_null(const std::optional<T>& value) {
    return value ? Json(*value) : Json(nullptr);
}

Json metric_json(const std::optional<Metric>& metric) {
    return metric ? Json{{"name", metric->name}, {"value", metric->value}} : Json(nullptr);
}

// `format` as in strftime.
std::string date_text(std::int64_t ns, bool utc, const char* format) {
    const auto seconds = static_cast<std::time_t>(ns / 1'000'000'000);
    std::tm time{};
    utc ? gmtime_r(&seconds, &time) : localtime_r(&seconds, &time);
    char text[32] = "";
    std::strftime(text, sizeof text, format, &time);
    return text;
}

}  // namespace

RunRecord open_run(const std::string& path, MetricLines lines) {
    if (!is_run_folder(path)) {
        constexpr const char* kHint = "`stoker runs list DIR` lists the runs below a folder";
        std::error_code none;
        const bool there = std::filesystem::exists(path, none);
        throw InvalidArgument({.where = path,
                               .expected = "a run folder, with a recipe.toml and a metrics.jsonl",
                               .got = there ? "a path without them" : "a path that does not exist",
                               .hint = there ? kHint : missing_path_hint(path, kHint)});
    }
    return read_run(path, lines);
}

std::string epochs_text(const RunRecord& run) {
    return fmt::format("{}/{}", run.metrics.last_epoch(), run.planned ? fmt::to_string(*run.planned) : "?");
}

std::string state_text(const RunRecord& run) {
    if (run.finished) {
        return "finished";
    }
    if (run.metrics.last_step() == 0) {
        return "no step recorded";
    }
    const char* how = !run.error.empty() ? "failed at" : run.interrupted ? "stopped at" : "at";
    return fmt::format("{} step {}", how, with_commas(static_cast<double>(run.metrics.last_step())));
}

std::string loss_text(double value) {
    return std::isfinite(value) ? number_text(value) : "-";
}

std::optional<Metric> metric_of(const EpochResult& epoch) {
    return epoch.val_loss && std::isfinite(*epoch.val_loss) ? main_metric(epoch) : std::nullopt;
}

std::string value_text(const std::optional<Metric>& metric) {
    if (!metric || !std::isfinite(metric->value)) {
        return "-";
    }
    return is_share(metric->name) ? fmt::format("{:.2f} %", 100 * metric->value) : number_text(metric->value);
}

std::string metric_name(const std::vector<RunRecord>& runs) {
    std::optional<std::string> name;
    for (const RunRecord& run : runs) {
        for (const EpochResult& epoch : run.metrics.epochs) {
            if (const auto metric = main_metric(epoch); metric && name.value_or(metric->name) != metric->name) {
                return "";
            } else if (metric) {
                name = metric->name;
            }
        }
    }
    return name.value_or("accuracy");
}

std::string rate_text(double per_second) {
    return per_second > 0 && std::isfinite(per_second) ? with_commas(per_second) : "-";
}

std::string time_text(const std::optional<std::int64_t>& ns) {
    return ns ? date_text(*ns, /*utc=*/false, "%Y-%m-%d %H:%M") : "-";
}

Json run_json(const RunRecord& run) {
    const EpochResult* last = run.metrics.epochs.empty() ? nullptr : &run.metrics.epochs.back();
    return {{"name", run.name},
            {"path", run.path.string()},
            {"model", or_null(run.model())},
            {"data", or_null(run.key("data.train"))},
            {"epochs_done", run.metrics.last_epoch()},
            {"epochs_planned", or_null(run.planned)},
            {"step", run.metrics.last_step()},
            {"train_loss", last == nullptr ? Json(nullptr) : Json(last->train_loss)},
            {"val_loss", last == nullptr ? Json(nullptr) : or_null(last->val_loss)},
            {"val_accuracy", last == nullptr ? Json(nullptr) : or_null(accuracy_of(*last))},
            {"val_metric", last == nullptr ? Json(nullptr) : metric_json(metric_of(*last))},
            {"images_per_second", last == nullptr ? Json(nullptr) : Json(run.images_per_second())},
            {"seconds", run.seconds()},
            {"device", or_null(run.device)},
            {"finished", run.finished},
            {"interrupted", run.interrupted},
            {"error", or_null(run.error)},
            {"modified",
             run.modified_ns ? Json(date_text(*run.modified_ns, /*utc=*/true, "%Y-%m-%dT%H:%M:%SZ")) : Json(nullptr)},
            {"problems", run.problems}};
}

Json epochs_json(const RunRecord& run) {
    Json epochs = Json::array();
    for (const EpochResult& epoch : run.metrics.epochs) {
        epochs.push_back({{"epoch", epoch.epoch},
                          {"step", epoch.step},
                          {"seconds", epoch.seconds},
                          {"images_per_second", epoch.images_per_second},
                          {"train_loss", epoch.train_loss},
                          {"val_loss", or_null(epoch.val_loss)},
                          {"val_accuracy", or_null(epoch.val_accuracy)},
                          {"val_metric", metric_json(main_metric(epoch))}});
    }
    return epochs;
}

void print_problems(const std::vector<RunRecord>& runs) {
    bool first = true;
    for (const RunRecord& run : runs) {
        std::vector<std::string> lines = run.problems;
        if (!run.error.empty()) {
            lines.insert(lines.begin(), "failed: " + run.error);
        }
        for (const std::string& line : lines) {
            print_lines(std::exchange(first, false) ? "\n" : "");
            print_stdout("{}: {}\n", for_terminal(run.name, 40), for_terminal(line, 400));
        }
    }
}

Command add_runs(CLI::App& app) {
    app.require_subcommand(1);
    CLI::App* list_app = app.add_subcommand("list", "list the runs below a folder");
    CLI::App* compare_app = app.add_subcommand("compare", "compare runs: recipes, results, curves");
    const Command list = add_runs_list(*list_app);
    const Command compare = add_runs_compare(*compare_app);
    const Command export_run =
        add_runs_export(*app.add_subcommand("export", "export a run's curves for TensorBoard or as SVG"));
    example(app,
            "  stoker runs list\n"
            "  stoker runs compare runs/first runs/second -o compare.svg\n"
            "  stoker runs export runs/first --tensorboard logs/first");
    return [=] { return list_app->parsed() ? list() : compare_app->parsed() ? compare() : export_run(); };
}

}  // namespace stoker::cli
