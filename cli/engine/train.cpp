// stoker train: reads a recipe, runs the trainer, shows what happens. SIGINT, SIGTERM and
// SIGHUP end the run after the current step, with a checkpoint.
#include <cstdio>
#include <filesystem>
#include <fmt/format.h>

#include "commands.h"
#include "interrupt.h"
#include "out_path.h"
#include "plan.h"
#include "progress.h"
#include "report.h"
#include "stoker/base/error.h"
#include "stoker/recipe/recipe.h"
#include "stoker/train/trainer.h"

namespace stoker::cli {
namespace {

struct Options {
    std::string recipe;
    std::vector<std::string> sets;
    std::string out;
    std::string resume;
    bool json = false;
};

void print_resumed(const Resumed& resumed) {
    if (resumed.finished) {
        fmt::print(stderr, "{}: this run is finished after {}; a larger train.epochs would go on\n", resumed.checkpoint,
                   counted(resumed.epochs, "epoch"));
    } else {
        fmt::print(stderr, "going on after step {}, from {}\n", with_commas(static_cast<double>(resumed.step)),
                   resumed.checkpoint);
    }
    for (const auto& [key, values] : resumed.differing) {
        fmt::print(stderr, "  {} was {} and is {} from here on\n", key, values[0].empty() ? "not set" : values[0],
                   values[1].empty() ? "not set" : values[1]);
    }
}

// Where a run fails after a step, says what it leaves behind, if it shall `tell` anything but the error.
TrainResult fit_or_tell(Trainer& trainer, const FitOptions& fit, ProgressBar& progress, const bool& tell) {
    try {
        return trainer.fit(fit);
    } catch (const std::exception&) {
        progress.clear();
        if (std::error_code none; tell && std::filesystem::exists(fit.out / "metrics.jsonl", none)) {
            fmt::print(stderr, "{}: metrics.jsonl and curves.svg tell of the run until it failed\n", fit.out.string());
        }
        throw;
    }
}

// Other commands take a run folder; this one may not guess whether to begin anew or to go on.
void require_recipe_file(const std::string& path) {
    std::error_code none;
    if (std::filesystem::is_directory(path, none)) {
        const bool run = std::filesystem::exists(std::filesystem::path(path) / "recipe.toml", none);
        throw InvalidArgument({.where = path,
                               .expected = "a recipe (TOML)",
                               .got = "a directory",
                               .hint = run ? fmt::format("{0}/recipe.toml --out {0} --resume auto goes on with it",
                                                         (std::filesystem::path(path) / "").parent_path().string())
                                           : ""});
    }
}

int train(const Options& options, const std::shared_ptr<Group>& group) {
    require_recipe_file(options.recipe);
    const Recipe recipe = read_recipe(options.recipe, options.sets);
    const std::string out = options.out.empty() ? "runs/" + recipe.name : options.out;
    if (group->first()) {
        require_writable_folder(out);
    }
    const bool resumes =
        !options.resume.empty() && find_checkpoint(options.resume == "auto" ? out : options.resume).has_value();
    Trainer trainer(recipe, resumes, group);
    ProgressBar progress;
    bool header = false;
    bool tell = false;
    FitOptions fit{.out = out, .resume = options.resume};
    fit.interrupt = &catch_signals();
    if (!group->first()) {  // one rank speaks for all
        const TrainResult result = trainer.fit(fit);
        return result.interrupted ? 128 + result.signal : 0;
    }
    if (!options.json) {
        print_plan(recipe, trainer, out, resumes);
    }
    if (options.resume == "auto" && !resumes) {
        fmt::print(stderr, "no checkpoint in {}: a new run begins\n", out);
    } else if (options.resume.empty() && RunFolder(out).failed_early()) {
        fmt::print(stderr, "{}: in place of the run that failed here without a checkpoint\n", out);
    }
    if (recipe.train.precision == "fp16" && trainer.device().is_cpu()) {
        fmt::print(stderr, "fp16 is emulated on a CPU, and many times slower than float32; bf16 is not\n");
    }
    fit.on_resume = print_resumed;
    std::string compiled = trainer.compiled();
    fit.on_step = [&](const Progress& at) {
        tell = !options.json;
        if (std::string now = trainer.compiled(); now != compiled) {  // a GPU's first steps tell
            compiled = std::move(now);
            progress.clear();
            fmt::print(stderr, "step: {}\n", compiled);
        }
        const double left =
            static_cast<double>((at.batches - at.batch) * recipe.data.batch_size) / at.images_per_second;
        progress.update(fmt::format("epoch {}/{}", at.epoch, at.epochs), at.batch, at.batches, at.images_per_second,
                        "images", left);
    };
    fit.on_epoch = [&](const EpochResult& epoch) {
        progress.clear();
        if (!std::exchange(header, true)) {
            fmt::print(stderr, "{}\n", epoch_header());
        }
        fmt::print(stderr, "{}\n", epoch_line(epoch, recipe.train.epochs));
        if (const std::int64_t bad = epoch.bad_samples + epoch.val_bad_samples; bad > 0) {
            fmt::print(stderr, "        {} replaced by others: {}/quarantine.jsonl\n", counted(bad, "bad sample"), out);
        }
    };
    const TrainResult result = fit_or_tell(trainer, fit, progress, tell);
    progress.clear();
    if (const std::string trouble = trainer.train_loader().stats().cache_trouble; !trouble.empty()) {
        fmt::print(stderr, "stoker: the cache stopped growing: {}\n", trouble);
    }
    if (options.json) {
        fmt::print("{}\n", result.document);
    } else {
        fmt::print("{}", account_report(result));
    }
    if (result.interrupted) {
        const int signal = result.signal;
        fmt::print(stderr, "stoker: stopped by signal {} after step {}; checkpoint written, --resume auto goes on\n",
                   signal, result.steps);
        return 128 + signal;
    }
    if (!options.json && !result.epochs.empty() && result.epochs.back().val_accuracy) {
        fmt::print("\naccuracy {:.2f} % after {}; run folder {}\n", 100 * *result.epochs.back().val_accuracy,
                   counted(std::ssize(result.epochs), "epoch"), result.run.string());
    }
    return 0;
}

int run(const Options& options) {
    const std::shared_ptr<Group> group = join_group();
    try {
        return train(options, group);
    } catch (const RankLost&) {
        group->leave("");
        throw;
    } catch (const std::exception& error) {
        if (!group->leave(error.what())) {
            return 1;  // what all ranks meet is said once
        }
        throw;
    }
}

}  // namespace

Command add_train(CLI::App& app) {
    auto options = std::make_shared<Options>();
    app.add_option("recipe", options->recipe, "the recipe (TOML)")->required();
    app.add_option("--set", options->sets, "change a key of the recipe: --set train.epochs=3")
        ->type_name("KEY=VALUE")
        ->take_all()
        ->allow_extra_args(false);
    app.add_option("--out", options->out, "the run folder (default: runs/<recipe>)")->type_name("DIR");
    app.add_option("--resume", options->resume,
                   "auto: the newest checkpoint in the run folder; or a checkpoint's folder, or another run's")
        ->type_name("auto|DIR");
    app.add_flag("--json", options->json, "one JSON document on stdout instead of the table");
    example(app,
            "  stoker train recipes/digits.toml --set train.epochs=3 --out runs/first\n"
            "  stoker train recipes/digits.toml --out runs/first --resume auto\n"
            "A first SIGINT (Ctrl-C), SIGTERM or SIGHUP ends the run after the current step, with a checkpoint:\n"
            "exit status 128 + N after signal N.");
    return [options] { return run(*options); };
}

}  // namespace stoker::cli
