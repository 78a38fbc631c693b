// stoker runs export: converts metrics.jsonl to TensorBoard event files or an SVG.
#include <algorithm>
#include <fmt/format.h>
#include <utility>

#include "cli/commands/runs.h"
#include "cli/terminal/output_path.h"
#include "cli/terminal/print.h"
#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/base/pluralize.h"
#include "stoker/recipe/recipe.h"
#include "stoker/track/curves.h"
#include "stoker/track/scalars.h"

namespace stoker::cli {
namespace {

struct RunsExportArguments {
    std::string run;
    std::string tensorboard;
    std::string svg;
    std::int64_t after = 0;
};

// "20 steps, 2 epochs": those behind step `after`.
std::string counts_of(const Metrics& metrics, std::int64_t after) {
    const auto later = [after](const auto& line) { return line.step > after; };
    return pluralize(std::ranges::count_if(metrics.steps, later), "step") + ", " +
           pluralize(std::ranges::count_if(metrics.epochs, later), "epoch");
}

int run(const RunsExportArguments& options) {
    if (options.tensorboard.empty() && options.svg.empty()) {
        throw BadSetting({.where = "runs export", .expected = "--tensorboard DIR or --svg FILE", .got = "neither"});
    }
    if (!options.svg.empty()) {
        require_svg_name("--svg", options.svg);
        require_writable_file(options.svg);
    }
    RunRecord record = open_run(options.run, MetricLines::all);
    const std::filesystem::path metrics = record.path / "metrics.jsonl";
    if (record.metrics.last_step() == 0) {
        read_metrics(metrics);  // throws if the file cannot be read
        throw InvalidArgument({.where = metrics.string(), .expected = "at least one step", .got = "none"});
    }
    if (!options.tensorboard.empty()) {
        const double end = 1e-9 * static_cast<double>(File(metrics).info().modified_ns);
        const std::filesystem::path file =
            export_events(record.metrics, {.folder = options.tensorboard, .end = end, .after = options.after});
        print_stdout("{}: {}\n", file.string(), counts_of(record.metrics, options.after));
    }
    if (!options.svg.empty()) {
        const std::string name = std::filesystem::path(options.run).lexically_normal().string();
        const CurveRun curve{.name = name, .metrics = std::move(record.metrics)};
        write_file(options.svg, curves_svg(std::span(&curve, 1)));
        print_stdout("{}: curves of {}\n", options.svg, counts_of(curve.metrics, 0));
    }
    return 0;
}

}  // namespace

Command add_runs_export(CLI::App& app) {
    auto options = std::make_shared<RunsExportArguments>();
    app.add_option("run", options->run, "a run folder")->required()->type_name("RUN");
    auto* tensorboard =
        app.add_option("--tensorboard", options->tensorboard,
                       "write an event file into this folder; TensorBoard shows it instead of earlier exports there")
            ->type_name("DIR");
    app.add_option("--after", options->after,
                   "with --tensorboard: export only the steps after this one, to follow a running training")
        ->check(not_negative())
        ->type_name("STEP")
        ->needs(tensorboard);
    app.add_option("--svg", options->svg, "draw losses, learning rate and accuracy into this file")
        ->type_name("FILE.svg");
    example(app,
            "  stoker runs export runs/first --tensorboard logs/first && tensorboard --logdir logs\n"
            "  stoker runs export runs/first --svg curves.svg");
    return [options] { return run(*options); };
}

}  // namespace stoker::cli
