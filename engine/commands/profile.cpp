// stoker profile: trains a few steps of a recipe under LibTorch's profiler, says what holds them up, and writes the
// profile in the formats of other tools.
#include <algorithm>
#include <exception>
#include <filesystem>
#include <fmt/format.h>
#include <iterator>
#include <nlohmann/json.hpp>
#include <system_error>

#include "cli/terminal/output_path.h"
#include "cli/terminal/print.h"
#include "cli/terminal/progress.h"
#include "cli/terminal/signals.h"
#include "engine/commands.h"
#include "engine/commands/profile_report.h"
#include "engine/ranks.h"
#include "stoker/base/error.h"
#include "stoker/base/pluralize.h"
#include "stoker/diagnose/diagnose.h"
#include "stoker/pipeline/recipe_data.h"
#include "stoker/profile/profile_files.h"
#include "stoker/profile/profile_run.h"
#include "stoker/recipe/recipe.h"

namespace stoker::cli {
namespace {

struct ProfileArguments {
    std::string recipe;
    std::vector<std::string> sets;
    std::string out;
    ProfileSchedule schedule;
    bool stacks = false;
    OperatorTableOptions table;
    bool json = false;
};

ProfiledRun run_steps(const ProfileArguments& options, const Recipe& recipe, Trainer& trainer) {
    ProgressBar progress;
    const std::int64_t total = options.schedule.steps();
    std::int64_t done = 0;
    const bool prints = trainer.group().first();
    const auto on_step = [&](const Progress& at) {
        ++done;
        if (prints && progress.due("profiling")) {
            progress.update({.label = "profiling",
                             .done = done,
                             .total = total,
                             .amount = static_cast<double>(done * recipe.data.batch_size),
                             .unit = "images",
                             .rate = at.images_per_second});
        }
    };
    ProfiledRun run = profile_run(
        trainer, recipe,
        {.schedule = options.schedule, .stacks = options.stacks, .on_step = on_step, .interrupt = &catch_signals()});
    progress.clear();
    return run;
}

DeviceFacts device_of(const ProfiledRun& run) {
    return run.records.ranks.front().facts.device;
}

// Why the profile has fewer steps than it was asked for; empty if it has all.
std::string why_short(const ProfiledRun& run, const ProfileSchedule& schedule) {
    const std::string steps = pluralize(run.profile.recorded_steps(), "recorded step");
    if (run.failure) {
        return fmt::format("training failed after {}; the profile has these", steps);
    }
    if (run.result.interrupted) {
        return run.profile.windows.empty()
                   ? fmt::format("stopped by signal {} before a step was recorded; nothing is written",
                                 run.result.signal)
                   : fmt::format("stopped by signal {} after {}; the profile has these", run.result.signal, steps);
    }
    if (run.profile.full) {
        return fmt::format("the recording ended after {}: the events of more would take too much memory", steps);
    }
    if (run.profile.recorded_steps() < schedule.active * schedule.repeat) {
        return fmt::format("the recording ended after {}: that of another rank was full", steps);
    }
    return {};
}

// Zero, or how a run that was stopped ends. Throws why training failed.
int status_of(const ProfiledRun& run) {
    if (run.failure) {
        std::rethrow_exception(run.failure);
    }
    return run.result.interrupted ? 128 + run.result.signal : 0;
}

int profile(const ProfileArguments& options, const std::shared_ptr<Group>& group) {
    const Recipe recipe = read_recipe(options.recipe, options.sets);
    const std::filesystem::path out = options.out.empty() ? "profiles/" + recipe.name : options.out;
    if (group->first()) {
        require_outside_data(out, all_sets(recipe.data));
        require_writable_folder(out);
    }
    Trainer trainer(recipe_to_profile(recipe, options.schedule), /*resumes=*/false, group);
    const auto earlier = prepare_profile_folder(out);  // each rank: they may be on several hosts
    if (group->first()) {
        print_stderr("{}: {} without the profiler, then {} with it, on {}; step: {}\n", options.recipe,
                     pluralize(options.schedule.wait, "step"), pluralize(options.schedule.active, "step"),
                     trainer.device().str(), trainer.compiled());
    }
    ProfiledRun run = run_steps(options, recipe, trainer);
    if (const std::string why = why_short(run, options.schedule); !why.empty() && group->first()) {
        print_stderr("stoker: {}\n", why);
    }
    if (run.profile.windows.empty()) {
        return status_of(run);
    }
    remove_traces(earlier);
    const ProfileFile trace = write_trace(out, run.profile, device_of(run));
    if (!group->first()) {
        return status_of(run);
    }
    add_trace(run.records, run.profile.rank, trace.path);
    const Diagnosis diagnosis = diagnose(run.records);
    std::vector<ProfileFile> files{write_page(out, run, diagnosis, recipe.name), trace};
    std::ranges::move(write_tables(out, run, recipe.name), std::back_inserter(files));
    if (options.json) {
        print_lines(to_json(run.records, diagnosis) + "\n");
    } else {
        print_lines(profile_report(run, diagnosis, options.table, files));
    }
    return status_of(run);
}

}  // namespace

Command add_profile(CLI::App& app) {
    auto options = std::make_shared<ProfileArguments>();
    constexpr std::int64_t kMost = 1'000'000;
    constexpr std::int64_t kMostRecorded = 100'000;  // a step has some twenty operators at least (step_profiler.h)
    app.add_option("recipe", options->recipe, "the recipe (TOML)")->required();
    add_set_option(app, options->sets, "data.workers=4");
    app.add_option("-o,--out", options->out, "the folder for all files (default: profiles/<recipe>)")->type_name("DIR");
    add_number(app, "--steps", options->schedule.active, "steps to record", 1, kMostRecorded);
    add_number(app, "--wait", options->schedule.wait, "steps before that, without the profiler", 0, kMost);
    add_number(app, "--warmup", options->schedule.warmup, "steps between, with the profiler, not recorded", 0, kMost);
    add_number(app, "--repeat", options->schedule.repeat, "how often to wait, warm up and record", 1, 1000);
    app.add_flag("--stacks", options->stacks, "record which line and module of TorchScript code called each operator");
    add_operator_table_options(app, options->table);
    app.add_flag("--json", options->json, "one JSON document on stdout instead of the text");
    example(app,
            "  stoker profile recipes/cifar10_resnet18.toml -o profiles/cifar10\n"
            "  stoker profile recipes/digits.toml --set train.compile=none --sort memory --group-by shape\n"
            "The folder holds a trace for ui.perfetto.dev, TensorBoard and HolisticTraceAnalysis, call stacks for\n"
            "speedscope, flamegraph.pl and snakeviz, and tables of operators and memory (docs/profile.md).");
    return [options] {
        return run_in_group([&](const std::shared_ptr<Group>& group) { return profile(*options, group); });
    };
}

}  // namespace stoker::cli
