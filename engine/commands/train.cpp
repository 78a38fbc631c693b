// stoker train: reads a recipe, runs the trainer, prints progress and results. SIGINT, SIGTERM and SIGHUP end the run
// after the current step, with a checkpoint; after SIGUSR1 it writes one and continues.
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fmt/format.h>
#include <optional>

#include "cli/terminal/accuracy.h"
#include "cli/terminal/advice.h"
#include "cli/terminal/output_path.h"
#include "cli/terminal/print.h"
#include "cli/terminal/progress.h"
#include "cli/terminal/signals.h"
#include "engine/commands.h"
#include "engine/commands/report.h"
#include "engine/commands/train_summary.h"
#include "engine/ranks.h"
#include "stoker/base/error.h"
#include "stoker/base/pluralize.h"
#include "stoker/dist/pipeline_schedule.h"
#include "stoker/profile/nvtx_ranges.h"
#include "stoker/recipe/recipe.h"
#include "stoker/recipe/values.h"
#include "stoker/track/run_record.h"
#include "stoker/train/trainer.h"

namespace stoker::cli {
namespace {

struct TrainArguments {
    std::string recipe;
    std::vector<std::string> sets;
    std::string out;
    std::string resume;
    bool json = false;
};

// Prints the progress of rank 0.
class TrainReport {
  public:
    TrainReport(const Recipe& recipe, Trainer& trainer, std::string out, bool json)
        : recipe_(recipe),
          trainer_(trainer),
          out_(std::move(out)),
          json_(json),
          compiled_(trainer.compiled()),
          micro_batches_(trainer.micro_batches()) {}

    // Whether the run had finished before it was resumed.
    bool had_finished() const { return had_finished_; }

    // Runs the training. If it fails after a step, prints which files cover the run.
    TrainResult fit(FitOptions options) {
        options.on_warning = [](const std::string& line) { print_stderr("stoker: {}\n", line); };
        options.on_resume = [this](const Resumed& resumed) {
            had_finished_ = resumed.finished;
            print_resumed(resumed, recipe_);
            print_schedule_change(resumed, recipe_, trainer_.train_loader().batches_per_epoch());
        };
        options.on_step = [this](const Progress& at) { step(at); };
        options.on_evaluation = [this](const EvaluationProgress& at) { show_progress(progress_, at); };
        options.on_epoch = [this](const EpochResult& result) { epoch(result); };
        options.on_save = [this](std::int64_t step) {
            progress_.clear();
            print_stderr("stoker: checkpoint of step {} written on SIGUSR1; the run goes on\n", step);
        };
        options.on_failure = [this](const FailedRun& failed) { failure(failed); };
        try {
            TrainResult result = trainer_.fit(options);
            progress_.clear();
            report_cache();
            return result;
        } catch (const std::exception&) {
            progress_.clear();
            throw;
        }
    }

  private:
    void step(const Progress& at) {
        if (std::string compiled = trainer_.compiled(); compiled != compiled_) {  // known after a GPU's first steps
            compiled_ = std::move(compiled);
            progress_.clear();
            print_stderr("step: {}\n", compiled_);
        }
        if (trainer_.micro_batches() > micro_batches_) {
            micro_batches_ = trainer_.micro_batches();
            progress_.clear();
            print_stderr(
                "stoker: [memory] a batch does not fit: steps are split into {} micro-batches; a smaller "
                "data.batch_size is faster\n",
                micro_batches_);
        }
        const std::string label = fmt::format("epoch {}/{}", at.epoch, at.epochs);
        if (!progress_.due(label)) {
            return;
        }
        progress_.update({.label = label,
                          .done = at.batch,
                          .total = at.batches,
                          .amount = static_cast<double>(at.batch * recipe_.data.batch_size),
                          .unit = "images",
                          .rate = at.images_per_second,  // as in the table: without checkpoints
                          .note = at.loss ? "loss " + number_text(*at.loss) : "",
                          .whole = {{.part = "epoch",
                                     .whole = "run",
                                     .done = (at.epoch - 1) * at.batches + at.batch,
                                     .total = at.epochs * at.batches}}});
    }

    void failure(const FailedRun& failed) {
        progress_.clear();
        if (std::error_code none; !json_ && std::filesystem::exists(std::filesystem::path(out_) / kCurves, none)) {
            print_stderr("{}: metrics.jsonl and curves.svg cover the run up to the failure\n", out_);
        }
        if (failed.no_checkpoint.empty()) {
            print_stderr("{}: checkpoint of step {} written; --resume auto continues\n", out_, failed.step);
        } else {
            print_stderr("{}: no checkpoint of step {}: {}\n", out_, failed.step, failed.no_checkpoint);
        }
    }

    // Says once that the cache stopped growing below its budget, or that the index of JPEGs is not written.
    void report_cache() {
        const LoaderStats stats = trainer_.train_loader().stats();
        if (!stats.cache_stop_reason.empty() && !std::exchange(cache_reported_, true)) {
            print_stderr("stoker: the cache stopped growing: {}\n", stats.cache_stop_reason);
        }
        if (!stats.jpeg_index_stop_reason.empty() && !std::exchange(index_reported_, true)) {
            print_stderr("stoker: nothing is added to the index of JPEGs: {}\n", stats.jpeg_index_stop_reason);
        }
    }

    void epoch(const EpochResult& result) {
        progress_.clear();
        report_cache();
        if (!std::exchange(header_, true)) {
            print_stderr("{}\n", epoch_header(trainer_.task()));
        }
        print_stderr("{}\n", epoch_line(result, recipe_.train.epochs, trainer_.task()));
        if (result.bubble) {
            print_stderr("        {}\n", bubble_line(*result.bubble));
        }
        if (const std::int64_t bad = result.bad_samples + result.val_bad_samples; bad > 0) {
            print_stderr("        {} replaced by other samples: {}/quarantine.jsonl\n", pluralize(bad, "bad sample"),
                         out_);
        }
    }

    const Recipe& recipe_;
    Trainer& trainer_;
    std::string out_;
    bool json_;
    ProgressBar progress_ = {};
    std::string compiled_;
    std::int64_t micro_batches_;
    bool header_ = false;
    bool cache_reported_ = false;
    bool index_reported_ = false;
    bool had_finished_ = false;
};

// Other commands accept a run folder; `train` does not, since a new run or a resumed one could be meant.
void require_recipe_file(const std::string& path) {
    std::error_code none;
    if (std::filesystem::is_directory(path, none)) {
        const bool run = std::filesystem::exists(std::filesystem::path(path) / "recipe.toml", none);
        throw InvalidArgument({.where = path,
                               .expected = "a recipe (TOML)",
                               .got = "a directory",
                               .hint = run ? fmt::format("{0}/recipe.toml --out {0} --resume auto continues the run",
                                                         (std::filesystem::path(path) / "").parent_path().string())
                                           : ""});
    }
}

// All runs' recipes have one name, so the default folder would be that of another run.
void require_out(const TrainArguments& options) {
    const std::filesystem::path folder = (std::filesystem::path(".") / options.recipe).parent_path().lexically_normal();
    std::error_code none;
    if (options.out.empty() && std::filesystem::path(options.recipe).filename() == kRecipeFile &&
        std::filesystem::exists(folder / kMetricsFile, none)) {
        throw InvalidArgument({.where = options.recipe,
                               .expected = "--out DIR for the recipe of a run",
                               .got = "none",
                               .hint = fmt::format("--out {} --resume auto continues the run", folder.string())});
    }
}

void print_start(const TrainArguments& options, const Recipe& recipe, Trainer& trainer, const std::string& out,
                 bool resumes) {
    if (!options.json) {
        print_run_summary(recipe, trainer, out, resumes);
    }
    print_advice(trainer.train_loader().dataset(), recipe.data, &trainer.train_loader().transform());
    if (const auto& val = trainer.data().val; val != nullptr && !parse_share(recipe.data.val)) {
        print_advice(*val, recipe.data);
    }
    if (options.resume == "auto" && !resumes) {
        print_stderr("no checkpoint in {}: starting a new run\n", out);
    } else if (options.resume.empty()) {
        RunFolder folder(out);
        folder.lock();
        if (folder.failed_early() || folder.killed_early()) {
            print_stderr("{}: replacing a {} run that left no checkpoint\n", out,
                         folder.failed_early() ? "failed" : "killed");
        }
    }
    if (recipe.train.shard != "none" && trainer.group().alone()) {
        print_stderr("train.shard has no effect with one process; `stoker launch` starts several\n");
    }
    if (recipe.train.precision == "fp16" && trainer.device().is_cpu()) {
        print_stderr("fp16 is emulated on CPUs and many times slower than float32; bf16 is not\n");
    }
}

void print_end(const TrainArguments& options, const TrainResult& result, bool had_finished) {
    if (result.bad_samples > 0) {
        print_stderr("replaced {} that could not be read: {}/{}\n", pluralize(result.bad_samples, "sample"),
                     result.run.string(), kQuarantine);
    }
    if (options.json) {
        print_lines(result.document + "\n");
    } else if (had_finished) {
        print_stdout("nothing was trained; where the time went is in {}\n", (result.run / kAccountFile).string());
    } else {
        print_lines(account_report(result));
    }
    if (result.interrupted) {
        print_stderr("stoker: stopped by signal {} after step {}; checkpoint written, --resume auto continues\n",
                     result.signal, result.steps);
    } else if (!options.json && !result.epochs.empty() && !result.epochs.back().val_metrics.empty()) {
        const EpochResult& last = result.epochs.back();
        const bool no_accuracy = last.val_accuracy && !accuracy_of(last);
        print_stdout("\n{} after {}; run folder {}\n",
                     no_accuracy ? "no accuracy: the loss is not finite" : metric_text(last.val_metrics.front()),
                     pluralize(std::ssize(result.epochs), "epoch"), result.run.string());
    }
}

// How the run chose its end and its best epoch.
void print_choice(const Recipe& recipe, const TrainResult& result) {
    if (result.stopped_early) {
        print_stderr("stopped early: {} without a better {}\n", pluralize(recipe.train.early_stop, "evaluation"),
                     recipe.train.keep_best.empty() ? "val_loss" : recipe.train.keep_best);
    }
    if (result.best_epoch) {
        print_stderr("best by {}: epoch {}, kept as {}/{}\n", recipe.train.keep_best, *result.best_epoch,
                     result.run.string(), kBest);
    }
}

int train(const TrainArguments& options, const std::shared_ptr<Group>& group) {
    require_recipe_file(options.recipe);
    require_out(options);
    const Recipe recipe = read_recipe(options.recipe, options.sets);
    const std::string out = options.out.empty() ? "runs/" + recipe.name : options.out;
    if (group->first()) {
        require_outside_data(out, all_sets(recipe.data));
        require_writable_folder(out);
        RunFolder(out).find_start(options.resume);  // refuses before data and model are read
    }
    const bool resumes =
        !options.resume.empty() && find_checkpoint(options.resume == "auto" ? out : options.resume).has_value();
    Trainer trainer(recipe, resumes, group);
    std::optional<NvtxRanges> ranges;
    if (nvtx_listens()) {
        ranges.emplace(trainer.account());
    }
    const FitOptions fit{
        .out = out, .resume = options.resume, .interrupt = &catch_signals(), .save = &catch_save_signal()};
    TrainResult result;
    if (group->first()) {  // only rank 0 prints
        announce_interrupt("stoker: stopping after this step; press Ctrl-C again to quit now");
        print_start(options, recipe, trainer, out, resumes);
        TrainReport report(recipe, trainer, out, options.json);
        result = report.fit(fit);
        print_end(options, result, report.had_finished());
        print_choice(recipe, result);
    } else {
        result = trainer.fit(fit);
    }
    return result.interrupted ? 128 + result.signal : 0;
}

}  // namespace

Command add_train(CLI::App& app) {
    auto options = std::make_shared<TrainArguments>();
    app.add_option("recipe", options->recipe, "the recipe (TOML)")->required();
    add_set_option(app, options->sets, "train.epochs=3");
    app.add_option("-o,--out", options->out, "the run folder (default: runs/<recipe>)")->type_name("DIR");
    app.add_option(
           "--resume", options->resume,
           "resume from: auto, the newest checkpoint in the run folder; or a checkpoint folder; or another run folder")
        ->type_name("auto|DIR");
    app.add_flag("--json", options->json, "one JSON document on stdout instead of the table");
    example(
        app,
        "  stoker train recipes/digits.toml --set train.epochs=3 --out runs/first\n"
        "  stoker train recipes/digits.toml --out runs/first --resume auto\n"
        "SIGINT (Ctrl-C), SIGTERM or SIGHUP ends the run after the current step, with a checkpoint and exit status\n"
        "128 + N for signal N. SIGUSR1, which Slurm can send before the time limit, writes a checkpoint, and the run\n"
        "goes on.");
    return [options] {
        std::signal(SIGPIPE, SIG_IGN);  // training continues if stdout or stderr is a closed pipe
        catch_save_signal();            // before the ranks meet: it ends a program that does not catch it
        return run_in_group([&](const std::shared_ptr<Group>& group) { return train(*options, group); });
    };
}

}  // namespace stoker::cli
