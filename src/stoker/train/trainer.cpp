#include "stoker/train/trainer.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <utility>

#include "stoker/base/error.h"
#include "stoker/base/process_memory.h"
#include "stoker/bridge/device_lost.h"
#include "stoker/bridge/device_memory.h"
#include "stoker/bridge/torch_error.h"
#include "stoker/train/run/rank_checks.h"

namespace stoker {

Trainer::Trainer(const Recipe& recipe, bool resumes, std::shared_ptr<Group> group)
    : Trainer(recipe, open_data(recipe.data), nullptr, OptimizerKernel::fused, resumes, std::move(group)) {}

Trainer::Trainer(const Recipe& recipe, RecipeData data, std::unique_ptr<Model> model, OptimizerKernel kernel,
                 bool resumes, std::shared_ptr<Group> group)
    : Trainer(with_stoker_errors([&] {
                  return plan_training(recipe, with_val_share(recipe.data, std::move(data)), std::move(model), resumes,
                                       group != nullptr ? std::move(group) : join_group());
              }),
              kernel) {}

Trainer::Trainer(const Recipe& recipe, RecipeData data, std::unique_ptr<Model> model, const CustomTask& task,
                 bool resumes, std::shared_ptr<Group> group)
    : Trainer(with_stoker_errors([&] {
                  Recipe own = recipe;
                  own.task = task_name(TaskKind::custom);
                  return plan_training(own, with_val_share(own.data, std::move(data)), std::move(model), resumes,
                                       group != nullptr ? std::move(group) : join_group(), task);
              }),
              OptimizerKernel::fused) {}

Trainer::Trainer(TrainPlan plan, OptimizerKernel kernel) try
    : plan_(std::move(plan)),
      ranks_(*plan_.group, plan_.mesh, plan_.recipe.data.bad_samples),
      loop_(plan_, recorder_, ranks_, kernel) {
} catch (const std::exception& error) {
    rethrow_as_stoker(error);
}

TrainResult Trainer::fit(const FitOptions& options) {
    recorder_.set_folder(plan_.group->first() ? options.out : std::filesystem::path());
    recorder_.listen(options.on_record);
    std::optional<std::int64_t> first;  // the step that the run starts after
    try {
        return with_stoker_errors([&] {
            require_same_start(*plan_.group, options.resume, !options.out.empty());
            start(options);
            warn_without_lock(options);
            first = loop_.steps();
            ranks_.start(loop_.checkpoints().shared_state());
            const bool was_finished = loop_.finished();
            const bool interrupted = !loop_.run(options);
            TrainResult done = result(options, interrupted);
            done.document = recorder_.finish(to_json(done), was_finished);
            return done;
        });
    } catch (const std::exception& error) {
        fail(error, first && loop_.steps() > *first, options);
        throw;
    }
}

void Trainer::warn_without_lock(const FitOptions& options) const {
    if (const std::string problem = recorder_.lock_problem(); options.on_warning && !problem.empty()) {
        options.on_warning(
            fmt::format("{}: the file system cannot lock this folder ({}); do not train in it from "
                        "two processes at once",
                        options.out.string(), problem));
    }
}

// Rank 0 chooses the checkpoint. It changes the run folder after all ranks have read the checkpoint.
void Trainer::start(const FitOptions& options) {
    if (!options.resume.empty()) {
        loop_.discard_losses();  // of an earlier run of this trainer
    }
    if (options.out.empty()) {
        if (!options.resume.empty()) {
            throw InvalidArgument({.where = "resume", .expected = "a run folder to resume in", .got = "none"});
        }
        loop_.record_facts();
        return;
    }
    const std::string checkpoint =
        plan_.group->broadcast(recorder_.find_start(options.resume, options.on_warning).string());
    if (!checkpoint.empty()) {
        const Resumed resumed = resume(checkpoint, options);
        if (options.on_resume) {
            options.on_resume(resumed);
        }
    } else if (plan_.has_weights) {
        recorder_.create(recipe_to_toml(plan_.recipe));
        loop_.record_facts();
    } else {
        throw InvalidArgument({.where = "resume",
                               .expected = "a checkpoint, since the trainer was made to resume",
                               .got = "none",
                               .hint = "start a new run"});
    }
}

Resumed Trainer::resume(const std::filesystem::path& checkpoint, const FitOptions& options) {
    const RunState loaded = loop_.load(checkpoint);
    const std::string recipe = recipe_to_toml(plan_.recipe);
    resumed_from_ = loop_.steps();
    Resumed resumed{.checkpoint = checkpoint.string(),
                    .step = loop_.steps(),
                    .epochs = std::ssize(loop_.epochs()),
                    .finished = loop_.finished()};
    if (resumed.finished) {
        recorder_.require_unfinished(checkpoint);
    }
    const bool known = !loaded.recipe.empty();
    if (known && !resumed.finished) {
        resumed.differing =
            differing_keys({recipe_keys(loaded.recipe, "the checkpoint's recipe"), recipe_keys(recipe, "the recipe")});
        std::erase_if(resumed.differing, [](const DifferingKey& key) { return key.key == "model.weights"; });
    }
    const DataSummary data = summary_of(*plan_.data.train);
    if (options.on_warning && data.format == loaded.data.format && data.bytes != loaded.data.bytes) {
        options.on_warning(fmt::format("data.train: {} bytes, and {} when the run began; keys and labels are the same",
                                       data.bytes, loaded.data.bytes));
    }
    plan_.group->barrier();  // the other ranks may take long to read
    if (resumed.finished && recorder_.is_newest(checkpoint)) {
        recorder_.reopen();
    } else {
        // A finished run keeps its recipe.
        recorder_.resume(resumed.finished && known ? loaded.recipe : recipe,
                         {.bytes = loaded.metrics_bytes, .step = resumed.step, .epochs = resumed.epochs},
                         recorder_.holds(checkpoint) ? options.on_warning : nullptr);
    }
    if (!resumed.finished) {
        loop_.record_facts();
    }
    return resumed;
}

// The epoch of RUN/best. Rank 0 alone has the folder.
std::optional<std::int64_t> Trainer::kept_epoch(const FitOptions& options) const {
    const EpochResult* const best = options.out.empty() ? nullptr : loop_.best();
    if (best == nullptr) {
        return std::nullopt;
    }
    const bool held = recorder_.holds_best(best->epoch * plan_.train_loader->batches_per_epoch());
    return held || !plan_.group->first() ? std::optional(best->epoch) : std::nullopt;
}

TrainResult Trainer::result(const FitOptions& options, bool interrupted) {
    return {.run = options.out,
            .resumed_from_step = resumed_from_,
            .steps = loop_.steps(),
            .epochs = loop_.epochs(),
            .account = loop_.account().sum(),
            .workers = plan_.train_loader->stats().workers,
            .peak_rss_mb = peak_rss_mb(),
            .device = plan_.device.str(),
            .memory = device_memory(plan_.device),
            .compiled = loop_.step().compiled(),
            .workers_used = plan_.train_loader->workers(),
            .threads = at::get_num_threads(),
            .ranks = plan_.group->size(),
            .bad_samples = recorder_.bad_sample_count(),
            .best_epoch = kept_epoch(options),
            .stopped_early = !interrupted && loop_.stopped_early(),
            .interrupted = interrupted,
            .signal = interrupted ? loop_.signal() : 0};
}

// A device that is lost may show only when the state is saved. Throws DeviceLost then, or where `error` is that.
void Trainer::fail(const std::exception& error, bool trained, const FitOptions& options) {
    const auto* lost = dynamic_cast<const DeviceLost*>(&error);
    std::string reason = lost != nullptr ? lost->reason() : "";
    try {
        record_failure(error.what(), trained, lost != nullptr, options);
    } catch (const DeviceLost& found) {
        reason = found.reason();
        record_failure(error.what(), trained, /*lost=*/true, options);
    }
    if (reason.empty()) {
        return;
    }
    const auto newest = options.out.empty() ? std::nullopt : find_checkpoint(options.out);
    throw DeviceLost(reason, newest ? "--resume auto (FitOptions::resume in C++) continues from " + newest->string()
                                    : "there is no checkpoint to continue from");
}

// Saves and records what is known of the run; of a `lost` device nothing can be read. An error of the recording is
// dropped in favour of the one that ended the run.
void Trainer::record_failure(const std::string& reason, bool trained, bool lost, const FitOptions& options) {
    try {
        if (!plan_.group->first() || recorder_.has_folder()) {
            recorder_.bad_samples(ranks_.publish_bad_samples());
        }
    } catch (const IoError&) {
    }
    const bool recorded = !lost && trained && recorder_.recording();
    const bool saves = recorded || (!lost && trained && options.on_record);
    const std::string no_checkpoint = saves ? loop_.save_after_failure() : "";
    recorder_.fail(reason, trained);
    if (recorded && options.on_failure) {
        options.on_failure({.step = loop_.steps(), .no_checkpoint = no_checkpoint});
    }
}

Evaluation Trainer::evaluate() {
    if (plan_.val_loader == nullptr) {
        throw InvalidArgument({.where = "data.val",
                               .expected = "validation data",
                               .got = "none",
                               .hint = "set data.val to a data set or to a share of train such as \"10%\""});
    }
    return with_stoker_errors([&] { return loop_.evaluate(nullptr, nullptr).value(); });
}

}  // namespace stoker
