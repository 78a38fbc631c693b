#include "engine/commands/train_summary.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <optional>
#include <vector>

#include "cli/terminal/print.h"
#include "engine/commands/report.h"
#include "stoker/base/byte_text.h"
#include "stoker/base/parse_number.h"
#include "stoker/base/pluralize.h"
#include "stoker/base/url_secrets.h"
#include "stoker/dist/pipeline_schedule.h"
#include "stoker/recipe/values.h"
#include "stoker/train/run/image_options.h"
#include "stoker/train/step/schedule.h"

namespace stoker::cli {
namespace {

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

// "48 x 80: 28, 64 x 64: 11", height and width, of batches of images of one size.
void print_sizes(const Loader& loader) {
    const std::vector<ImageSize>& sizes = loader.options().bucket_sizes;
    std::vector<std::string> counts;
    std::vector<std::string> left_out;
    for (const auto& [length, samples, used] :
         sizes.empty() ? std::vector<BucketSampler::Length>() : loader.options().buckets->lengths()) {
        const auto [height, width] = sizes[static_cast<std::size_t>(length)];
        counts.push_back(fmt::format("{} x {}: {}", height, width, samples));
        if (used == 0) {
            left_out.push_back(fmt::format("{} x {}", height, width));
        }
    }
    if (!counts.empty()) {
        print_stderr("images of each size: {}\n", fmt::join(counts, ", "));
    }
    if (!left_out.empty()) {
        print_stderr("data.drop_last leaves out all images of {}: they do not fill a batch\n",
                     fmt::join(left_out, " and "));
    }
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

}  // namespace

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
    print_sizes(loader);
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

}  // namespace stoker::cli
