#include "engine/commands/run_summary.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/terminal/print.h"
#include "stoker/base/pluralize.h"
#include "stoker/recipe/values.h"

namespace stoker::cli {
namespace {

std::string count_elements(const std::vector<NamedTensor>& parameters) {
    std::int64_t count = 0;
    for (const auto& [name, tensor] : parameters) {
        count += tensor.numel();
    }
    return with_commas(static_cast<double>(count));
}

// "96 samples in 8 classes"; without the classes if the data set does not list them.
std::string samples_text(const Dataset& dataset) {
    const auto classes = std::ssize(dataset.classes());
    const std::string samples = pluralize(dataset.size(), "sample");
    return classes == 0 ? samples : fmt::format("{} in {}", samples, pluralize(classes, "class"));
}

// One line for each setting that has no effect in a run of this length.
std::vector<std::string> settings_without_effect(const Recipe& recipe, std::int64_t steps_per_epoch) {
    const ScheduleRecipe& schedule = recipe.schedule;
    const std::int64_t epochs = recipe.train.epochs;
    const std::string run = fmt::format("a run of {}", pluralize(epochs, "epoch"));
    // The run's length in the unit of `interval`.
    const auto length = [&](const Interval& interval) { return interval.epochs ? epochs : epochs * steps_per_epoch; };
    const auto run_in = [&](const Interval& interval) {
        return fmt::format("a run of {}", pluralize(length(interval), interval.epochs ? "epoch" : "step"));
    };
    std::vector<std::string> lines;
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
    if (schedule.name == "plateau" &&
        schedule.patience + 3 > epochs) {  // the best epoch, patience + 1 worse ones, one at the lower rate
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

}  // namespace

void print_run_summary(const Recipe& recipe, Trainer& trainer, const std::string& out, bool resumes) {
    const std::string parameters = count_elements(trainer.model().parameters());
    const std::string trained = count_elements(trainer.model().trainable_parameters());
    const Loader& loader = trainer.train_loader();
    print_stderr("{}: {}, batch {}, {} per epoch, {}\n", recipe.data.train, samples_text(loader.dataset()),
                 recipe.data.batch_size, pluralize(loader.batches_per_epoch(), "step"),
                 pluralize(loader.workers(), "worker"));
    print_stderr("{}: {} parameters{}, {}, on {}; run folder {}\n", model_label(recipe.model, loader.image_shape()),
                 parameters, trained == parameters ? "" : fmt::format(", {} of them trainable", trained),
                 recipe.optimizer.name, trainer.device().str(), out);
    if (const std::string compiled = trainer.compiled(); trainer.device().is_cuda() || !compiled.starts_with("eager")) {
        print_stderr("step: {}\n", compiled);
    }
    if (!recipe.model.weights.empty() && !resumes) {
        print_stderr(
            "{}: initial weights{}\n", recipe.model.weights,
            trainer.fresh().empty() ? "" : fmt::format("; {} newly initialised", fmt::join(trainer.fresh(), " and ")));
    }
    for (const std::string& line : settings_without_effect(recipe, loader.batches_per_epoch())) {
        print_stderr("{}\n", line);
    }
}

}  // namespace stoker::cli
