// stoker train: reads a recipe, runs the trainer, prints progress and results. SIGINT, SIGTERM and SIGHUP end the run
// after the current step, with a checkpoint; after SIGUSR1 it writes one and continues.
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <optional>

#include "cli/terminal/accuracy.h"
#include "cli/terminal/advice.h"
#include "cli/terminal/output_path.h"
#include "cli/terminal/print.h"
#include "cli/terminal/progress.h"
#include "cli/terminal/signals.h"
#include "engine/commands.h"
#include "engine/commands/report.h"
#include "engine/ranks.h"
#include "stoker/base/byte_text.h"
#include "stoker/base/error.h"
#include "stoker/base/parse_number.h"
#include "stoker/base/pluralize.h"
#include "stoker/base/url_secrets.h"
#include "stoker/dist/pipeline_schedule.h"
#include "stoker/pipeline/recipe_data.h"
#include "stoker/profile/nvtx_ranges.h"
#include "stoker/recipe/recipe.h"
#include "stoker/recipe/values.h"
#include "stoker/track/run_record.h"
#include "stoker/train/run/image_options.h"
#include "stoker/train/step/schedule.h"
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

// "96 samples in 8 classes", "96 samples, target flags (3 values)".
std::string samples_text(const Dataset& dataset, const Task& task) {
    const auto classes = std::ssize(dataset.classes());
    std::string samples = pluralize(dataset.size(), "sample");
    if (task.classifies()) {
        return classes == 0 ? samples : fmt::format("{} in {}", samples, pluralize(classes, "class"));
    }
    if (task.kind == TaskKind::multilabel || task.kind == TaskKind::regression) {
        return fmt::format("{}, target {} ({})", samples, task.fields.target, pluralize(task.outputs, "value"));
    }
    return samples;
}

// One line for each setting that does nothing in a run of this length.
std::vector<std::string> settings_without_effect(const Recipe& recipe, const Task& task, std::int64_t steps_per_epoch) {
    const ScheduleRecipe& schedule = recipe.schedule;
    const std::int64_t epochs = recipe.train.epochs;
    const std::string run = fmt::format("a run of {}", pluralize(epochs, "epoch"));
    // The run's length in the unit of `interval`.
    const auto length = [&](const Interval& interval) { return interval.epochs ? epochs : epochs * steps_per_epoch; };
    const auto run_in = [&](const Interval& interval) {
        return fmt::format("a run of {}", pluralize(length(interval), interval.epochs ? "epoch" : "step"));
    };
    std::vector<std::string> lines;
    for (const FieldRecipe& field : recipe.data.fields.more) {
        if (task.kind == TaskKind::multilabel && field.is == "label" && field.name != task.fields.target) {
            lines.push_back(
                fmt::format("data.fields.{}: not learned, the target is {}; from = \"a,b\" makes one target of "
                            "several columns",
                            field.name, task.fields.target));
        }
    }
    if (schedule.name == "multi_step") {
        std::vector<std::int64_t> late = schedule.milestones;
        std::erase_if(late, [&](std::int64_t milestone) { return milestone < epochs; });
        if (!late.empty()) {
            lines.push_back(fmt::format("schedule.milestones: {} {} no effect in {}", fmt::join(late, ", "),
                                        late.size() == 1 ? "has" : "have", run));
        }
    }
    if (schedule.name != "multi_step" && !schedule.milestones.empty()) {
        lines.push_back(fmt::format("schedule.milestones: no effect with the schedule {}", schedule.name));
    }
    if (schedule.name == "one_cycle" && schedule.warmup.count > 0) {
        lines.emplace_back("schedule.warmup: no effect with the schedule one_cycle, which has its own warm-up");
    }
    if (schedule.name == "step" && schedule.step_size >= epochs) {
        lines.push_back(fmt::format("schedule.step_size: {} has no effect in {}", schedule.step_size, run));
    }
    if (schedule.name == "plateau" && schedule.patience + 3 > epochs) {  // the best, patience + 1 worse, a lower rate
        lines.push_back(fmt::format("schedule.patience: {} has no effect in {}", schedule.patience, run));
    }
    if (schedule.warmup.count > 0 && schedule.name != "one_cycle" && schedule.warmup.count >= length(schedule.warmup)) {
        lines.push_back(fmt::format("schedule.warmup: {} in {}: optimizer.lr is never reached",
                                    interval_text(schedule.warmup), run_in(schedule.warmup)));
    }
    if (const Interval& every = recipe.train.checkpoint_every; every.count > length(every)) {
        lines.push_back(fmt::format("train.checkpoint_every: {} in {}: the only checkpoint is the one at the end",
                                    interval_text(every), run_in(every)));
    }
    return lines;
}

// The ops that change all values alike, in training and validation.
constexpr const char* kValueOps[] = {"to_float", "window", "normalize", "normalize_range"};

bool has_op(const std::vector<OpSpec>& ops, std::string_view name) {
    return std::ranges::find(ops, name, &OpSpec::name) != ops.end();
}

// One line for each difference between training and validation that is likely a mistake.
std::vector<std::string> validation_mistakes(const Recipe& recipe, const Trainer& trainer) {
    std::vector<std::string> lines;
    const Loader* val = trainer.val_loader();
    if (val == nullptr) {
        return lines;
    }
    if (val->state().identity != 0 && val->state().identity == trainer.train_loader().state().identity &&
        val->state().keys == trainer.train_loader().state().keys) {
        lines.emplace_back(
            "data.val has the samples of data.train: val_loss and val_accuracy do not show how the model does on new "
            "data");
    }
    for (const char* name : kValueOps) {
        if (const bool in_training = has_op(recipe.data.train_ops, name);
            in_training != has_op(recipe.data.val_ops, name)) {
            lines.push_back(
                fmt::format("{} is in data.{} only: the model is evaluated on other values than it is trained on", name,
                            in_training ? "train_ops" : "val_ops"));
        }
    }
    return lines;
}

// Prints the place of a loader's images for data.cache = "device"; nothing for a null loader.
void print_device_cache(const char* key, const Loader* loader, const at::Device& device) {
    if (loader == nullptr) {
        return;
    }
    if (const ImageTable* images = loader->indexed_images()) {
        const ImageBlock& block = *images->block();
        print_stderr("{}: {} on {}, {}\n", key, pluralize(block.count, "image"), device.str(),
                     byte_text(block.count * block.size.height * block.size.width * block.channels));
    } else {
        print_stderr("{} stays in host memory, and its ops on the CPU: {}\n", key, loader->why_not_indexed());
    }
}

// Prints the blocks of each stage, and the cost of the stages' waiting for each other.
void print_stages(const Recipe& recipe, const Trainer& trainer) {
    const int stages = static_cast<int>(recipe.train.mesh.pp);
    const double bubble = bubble_share(stages, trainer.micro_batches());
    print_stderr("stages: {}; {}, {}, bubble {:.1f} %\n", partition_text(trainer.stage()->partition),
                 recipe.train.pipeline, pluralize(trainer.micro_batches(), "micro-batch"), 100 * bubble);
    if (trainer.micro_batches() < stages) {
        print_stderr(
            "train.accumulate: with {} for {} stages each of them waits {:.0f} % of the time; with {} it waits {:.0f} "
            "%\n",
            pluralize(trainer.micro_batches(), "micro-batch"), stages, 100 * bubble, 4 * stages,
            100 * bubble_share(stages, 4 * stages));
    }
}

// Data, model, device, run folder, and the settings that have no effect in a run of this length.
void print_run_summary(const Recipe& recipe, Trainer& trainer, const std::string& out, bool resumes) {
    const std::string parameters = with_commas(static_cast<double>(trainer.parameters()));
    const std::string trained = with_commas(static_cast<double>(trainer.trained_parameters()));
    const Loader& loader = trainer.train_loader();
    const Loader* val = trainer.val_loader();
    print_stderr("{}: {}{}, batch {}{}, {} per epoch, {}\n", shown_url(recipe.data.train),
                 samples_text(loader.dataset(), trainer.task()),
                 val == nullptr
                     ? ""
                     : fmt::format(" and {} for validation", with_commas(static_cast<double>(val->dataset().size()))),
                 loader.options().buckets != nullptr ? "up to " : "", loader.options().batch_size,
                 pluralize(loader.batches_per_epoch(), "step"), pluralize(loader.workers(), "worker"));
    print_stderr("{}: {} parameters{}, {}, on {}; run folder {}\n", model_label(recipe.model, loader.image_shape()),
                 parameters, trained == parameters ? "" : fmt::format(", {} of them trainable", trained),
                 recipe.optimizer.name, trainer.device().str(), out);
    print_stderr("step: {}\n", trainer.compiled());
    if (const Group& group = trainer.group(); !group.alone() && trainer.device().is_cuda()) {
        print_stderr("{}\n", group.uses_nccl() ? "tensors go between the GPUs by NCCL"
                                               : fmt::format("tensors go through the host by Gloo, which is slow: {}",
                                                             group.why_gloo()));
    }
    if (trainer.stage()) {
        print_stages(recipe, trainer);
    }
    if (recipe.data.cache == "device") {
        print_device_cache("data.train", &loader, trainer.device());
        print_device_cache("data.val", trainer.val_loader(), trainer.device());
    }
    if (const std::string where = decodes_on(loader); where != "cpu") {
        print_stderr("dct records are decoded on {}{}\n", trainer.device().str(),
                     where == "auto" ? " where the workers fall behind" : "");
    }
    if (!recipe.model.weights.empty() && !resumes) {
        print_stderr(
            "{}: initial weights{}\n", recipe.model.weights,
            trainer.fresh().empty() ? "" : fmt::format("; {} newly initialised", fmt::join(trainer.fresh(), " and ")));
    }
    for (const std::string& line : settings_without_effect(recipe, trainer.task(), loader.batches_per_epoch())) {
        print_stderr("{}\n", line);
    }
    for (const std::string& line : validation_mistakes(recipe, trainer)) {
        print_stderr("{}\n", line);
    }
}

// The schedules that go over all steps of a run take another course if train.epochs has changed. Says what that does
// to the next step.
void print_schedule_change(const Resumed& resumed, const Recipe& recipe, std::int64_t steps_per_epoch) {
    const auto changed = std::ranges::find(resumed.differing, "train.epochs", &DifferingKey::key);
    const auto epochs =
        changed == resumed.differing.end() ? std::nullopt : parse_number<std::int64_t>(changed->values[0]);
    if (!epochs) {
        return;
    }
    const auto rate = [&](std::int64_t total) {
        return learning_rate(
            recipe.schedule, recipe.optimizer.lr,
            {.step = resumed.step, .total = total * steps_per_epoch, .steps_per_epoch = steps_per_epoch});
    };
    if (const double before = rate(*epochs), after = rate(recipe.train.epochs); before != after) {
        print_stderr(
            "  schedule.name {} covers {} instead of {}: the learning rate of the next step is {:.3g}, not {:.3g}\n",
            recipe.schedule.name, pluralize(recipe.train.epochs, "epoch"), *epochs, after, before);
    }
}

void print_resumed(const Resumed& resumed, const Recipe& recipe) {
    if (resumed.finished && resumed.epochs > recipe.train.epochs) {
        print_stderr("{}: {} are done, and train.epochs is {}: raise it to continue the run\n", resumed.checkpoint,
                     pluralize(resumed.epochs, "epoch"), recipe.train.epochs);
    } else if (resumed.finished) {
        print_stderr("{}: this run finished after {}; raise train.epochs to continue it\n", resumed.checkpoint,
                     pluralize(resumed.epochs, "epoch"));
    } else {
        print_stderr("resuming after step {} from {}\n", with_commas(static_cast<double>(resumed.step)),
                     resumed.checkpoint);
    }
    for (const auto& [key, values] : resumed.differing) {
        print_stderr("  {} changed from {} to {}\n", key, values[0].empty() ? "not set" : values[0],
                     values[1].empty() ? "not set" : values[1]);
    }
}

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

    // Says once that the cache stopped growing below its budget.
    void report_cache() {
        const std::string reason = trainer_.train_loader().stats().cache_stop_reason;
        if (!reason.empty() && !std::exchange(cache_reported_, true)) {
            print_stderr("stoker: the cache stopped growing: {}\n", reason);
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
