// stoker train: reads a recipe, runs the trainer, shows what happens. SIGINT, SIGTERM and
// SIGHUP end the run after the current step, with a checkpoint.
#include <cstdio>
#include <filesystem>
#include <fmt/format.h>

#include "cli/terminal/interrupt.h"
#include "cli/terminal/out_path.h"
#include "cli/terminal/progress.h"
#include "cli/terminal/say.h"
#include "engine/commands.h"
#include "engine/commands/report.h"
#include "engine/commands/run_plan.h"
#include "stoker/base/error.h"
#include "stoker/base/pluralize.h"
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
        say("{}: this run is finished after {}; a larger train.epochs would go on\n", resumed.checkpoint,
            pluralize(resumed.epochs, "epoch"));
    } else {
        say("going on after step {}, from {}\n", with_commas(static_cast<double>(resumed.step)), resumed.checkpoint);
    }
    for (const auto& [key, values] : resumed.differing) {
        say("  {} was {} and is {} from here on\n", key, values[0].empty() ? "not set" : values[0],
            values[1].empty() ? "not set" : values[1]);
    }
}

// What the first rank tells while it trains.
class Report {
  public:
    Report(const Recipe& recipe, Trainer& trainer, std::string out, bool json)
        : recipe_(recipe), trainer_(trainer), out_(std::move(out)), json_(json), compiled_(trainer.compiled()) {}

    // The run itself. Where it fails after a step, it is said what it leaves behind.
    TrainResult fit(FitOptions options) {
        options.on_resume = print_resumed;
        options.on_step = [this](const Progress& at) { step(at); };
        options.on_evaluation = [this](const EvaluationProgress& at) { show(progress_, at); };
        options.on_epoch = [this](const EpochResult& result) { epoch(result); };
        try {
            TrainResult result = trainer_.fit(options);
            progress_.clear();
            return result;
        } catch (const std::exception&) {
            progress_.clear();
            if (std::error_code none; trained_ && !json_ && std::filesystem::exists(options.out / kCurves, none)) {
                say("{}: metrics.jsonl and curves.svg tell of the run until it failed\n", out_);
            }
            throw;
        }
    }

  private:
    void step(const Progress& at) {
        trained_ = true;
        if (std::string now = trainer_.compiled(); now != compiled_) {  // a GPU's first steps tell
            compiled_ = std::move(now);
            progress_.clear();
            say("step: {}\n", compiled_);
        }
        const double left =
            static_cast<double>((at.batches - at.batch) * recipe_.data.batch_size) / at.images_per_second;
        progress_.update(fmt::format("epoch {}/{}", at.epoch, at.epochs), at.batch, at.batches, at.images_per_second,
                         "images", left);
    }

    void epoch(const EpochResult& result) {
        progress_.clear();
        if (!std::exchange(header_, true)) {
            say("{}\n", epoch_header());
        }
        say("{}\n", epoch_line(result, recipe_.train.epochs));
        if (const std::int64_t bad = result.bad_samples + result.val_bad_samples; bad > 0) {
            say("        {} replaced by others: {}/quarantine.jsonl\n", pluralize(bad, "bad sample"), out_);
        }
    }

    const Recipe& recipe_;
    Trainer& trainer_;
    std::string out_;
    bool json_;
    ProgressBar progress_ = {};
    std::string compiled_;
    bool header_ = false;
    bool trained_ = false;
};

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

void print_start(const Options& options, const Recipe& recipe, Trainer& trainer, const std::string& out, bool resumes) {
    if (!options.json) {
        print_plan(recipe, trainer, out, resumes);
    }
    if (options.resume == "auto" && !resumes) {
        say("no checkpoint in {}: a new run begins\n", out);
    } else if (options.resume.empty() && RunFolder(out).failed_early()) {
        say("{}: in place of the run that failed here without a checkpoint\n", out);
    }
    if (recipe.train.precision == "fp16" && trainer.device().is_cpu()) {
        say("fp16 is emulated on a CPU, and many times slower than float32; bf16 is not\n");
    }
}

void print_end(const Options& options, const TrainResult& result, const std::string& cache_trouble) {
    if (!cache_trouble.empty()) {
        say("stoker: the cache stopped growing: {}\n", cache_trouble);
    }
    if (options.json) {
        fmt::print("{}\n", result.document);
    } else {
        fmt::print("{}", account_report(result));
    }
    if (result.interrupted) {
        say("stoker: stopped by signal {} after step {}; checkpoint written, --resume auto goes on\n", result.signal,
            result.steps);
    } else if (!options.json && !result.epochs.empty() && result.epochs.back().val_accuracy) {
        const std::optional<double> accuracy = accuracy_of(result.epochs.back());
        fmt::print("\n{} after {}; run folder {}\n",
                   accuracy ? fmt::format("accuracy {:.2f} %", 100 * *accuracy) : "no accuracy: the loss is not finite",
                   pluralize(std::ssize(result.epochs), "epoch"), result.run.string());
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
    const FitOptions fit{.out = out, .resume = options.resume, .interrupt = &catch_signals()};
    TrainResult result;
    if (group->first()) {  // one rank speaks for all
        print_start(options, recipe, trainer, out, resumes);
        result = Report(recipe, trainer, out, options.json).fit(fit);
        print_end(options, result, trainer.train_loader().stats().cache_trouble);
    } else {
        result = trainer.fit(fit);
    }
    return result.interrupted ? 128 + result.signal : 0;
}

int run(const Options& options) {
    outlive_readers();
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
