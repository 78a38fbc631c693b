// One pass over the data; train/task/scores.h sums on the device what is read once, at the end.
#include "stoker/train/run/evaluate.h"

#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
#include <string_view>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/bridge/device_copier.h"
#include "stoker/bridge/pixels.h"
#include "stoker/bridge/torch_error.h"
#include "stoker/formats/relabelled.h"
#include "stoker/train/run/rank_checks.h"
#include "stoker/train/run/rank_sync.h"
#include "stoker/train/run/run_setup.h"
#include "stoker/train/task/target_check.h"

namespace stoker {
namespace {

// Every pass has the same order and the same draws of random ops.
void rewind(Loader& loader) {
    LoaderState state = loader.state();
    if (state.epoch != 0 || state.batch != 0) {
        state.epoch = 0;
        state.batch = 0;
        state.bad_samples = 0;
        loader.restore(state);
    }
}

class EvaluationMode {
  public:
    explicit EvaluationMode(Model& model) : model_(model) { model_.train(false); }
    EvaluationMode(const EvaluationMode&) = delete;
    EvaluationMode& operator=(const EvaluationMode&) = delete;
    ~EvaluationMode() { model_.train(true); }

  private:
    Model& model_;
};

std::optional<double> value_of(const std::vector<Metric>& metrics, std::string_view name) {
    const auto found = std::ranges::find(metrics, name, &Metric::name);
    return found == metrics.end() ? std::nullopt : std::optional(found->value);
}

// The same as `evaluation_outputs` on the last stage; undefined on others, which send theirs.
at::Tensor stage_outputs(const Model& model, DeviceBatch& batch, const Precision& precision, const at::Device& device,
                         StageLinks& links) {
    normalize_pixels(batch);
    const Autocast autocast(precision, device);
    const at::Tensor outputs = model.forward_stage(links.first() ? batch.input : links.receive_input(batch.size()));
    if (links.last()) {
        return as_float(outputs);
    }
    links.send_output(outputs);
    return {};
}

}  // namespace

at::Tensor evaluation_outputs(Model& model, DeviceBatch& batch, const Precision& precision, const at::Device& device,
                              FullyShardedModel* full) {
    normalize_pixels(batch);
    const Autocast autocast(precision, device);
    return as_float(full != nullptr ? full->outputs(batch) : model.outputs(batch));
}

std::optional<Evaluation> evaluate(Model& model, Loader& loader, const Task& task, const at::Device& device,
                                   const EvaluateOptions& options, const Group& group) {
    const c10::InferenceMode inference;
    const EvaluationMode mode(model);
    rewind(loader);
    const std::unique_ptr<Scores> scores = make_scores(task, device, options.confusion);
    std::int64_t samples = 0;
    std::int64_t bad = 0;
    DeviceCopier copier(device, task.fields);
    EvaluationProgress progress{.of = loader.batch_sampler().options().size};
    const auto begin = std::chrono::steady_clock::now();
    Account account;
    const StageTimes workers = loader.stats().workers;
    const auto next = [&] {
        const PhaseSpan span(account, Phase::wait);
        return loader.next(options.on_bad_samples);
    };
    const auto flush = [&] {
        if (options.stage != nullptr) {
            options.stage->flush();
        }
    };
    // Whether the work may be tried again after `error`.
    const auto frees_memory = [&](const std::exception& error) {
        return is_out_of_memory(error) && options.free_memory && options.free_memory();
    };
    const auto copy = [&](const std::shared_ptr<Batch>& batch) {
        const PhaseSpan span(account, Phase::copy);
        DeviceBatch on_device = copier.copy(batch);
        prepare(task, on_device);
        return on_device;
    };
    const auto copy_in_memory = [&](const std::shared_ptr<Batch>& batch) {
        try {
            return copy(batch);
        } catch (const std::exception& error) {
            if (!frees_memory(error)) {
                throw;
            }
        }
        return copy(batch);
    };
    const auto score = [&](DeviceBatch batch) {
        const PhaseSpan pass(account, Phase::forward);
        const at::Tensor outputs = options.stage != nullptr
                                       ? stage_outputs(model, batch, options.precision, device, *options.stage)
                                       : evaluation_outputs(model, batch, options.precision, device, options.full);
        if (outputs.defined()) {
            scores->add(outputs, batch);
        }
    };
    // Stages and ranks that share a model go through each batch together, so they cannot split one. A metric of one's
    // own may be one number for the whole batch.
    const bool splits =
        options.stage == nullptr && options.full == nullptr && model.divided().empty() && task.kind != TaskKind::custom;
    std::int64_t most = std::numeric_limits<std::int64_t>::max();  // samples of a pass, less once memory runs out
    const auto score_in_memory = [&](const DeviceBatch& batch) {
        std::int64_t first = 0;
        while (first < batch.size()) {
            const std::int64_t count = std::min(most, batch.size() - first);
            try {
                score(count == batch.size() ? batch : batch.narrow(first, count));
                first += count;
            } catch (const std::exception& error) {
                if (frees_memory(error)) {
                    continue;
                }
                if (!is_out_of_memory(error) || !splits || count == 1) {
                    throw;
                }
                most = (count + 1) / 2;
            }
        }
    };
    while (const auto batch = next()) {
        if (batch->size() > 0) {  // a rank may have no samples of the last batch
            require_targets(task, *batch, loader.dataset());
            score_in_memory(copy_in_memory(batch));
        } else if (options.full != nullptr) {
            options.full->forward_without_samples();
        }
        if (options.stage == nullptr || options.stage->last()) {  // all stages have the same samples
            samples += batch->size();
            bad += replaced_items(batch->bad_samples());
        }
        if (options.on_batch) {
            const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
            progress.samples += loader.batch_sampler().samples(batch->number());
            progress.images_per_second = static_cast<double>(progress.samples) / spent.count();
            options.on_batch(progress);
        }
        if (options.stop && options.stop()) {
            flush();
            return std::nullopt;
        }
    }
    flush();
    account.enter(Phase::sync);
    scores->fetch();
    account.enter(Phase::unmeasured);
    const StepRecord times = account.take_record();
    std::array counts = {static_cast<double>(samples), static_cast<double>(bad)};
    group.barrier();  // in a long pass a slower rank may be minutes behind
    group.all_reduce(counts);
    Figures figures = scores->figures(group);
    Evaluation result{.loss = figures.loss,
                      .accuracy = task.classifies() ? value_of(figures.metrics, "accuracy") : std::nullopt,
                      .top5 = task.classifies() ? value_of(figures.metrics, "top5_accuracy") : std::nullopt,
                      .metrics = std::move(figures.metrics),
                      .samples = static_cast<std::int64_t>(counts[0]),
                      .bad_samples = static_cast<std::int64_t>(counts[1]),
                      .confusion = std::move(figures.confusion),
                      .account = times,
                      .workers = loader.stats().workers};
    result.workers -= workers;
    result.workers.limit_blocked(loader.workers() * std::chrono::duration<double>(times.total()));
    return result;
}

Evaluation evaluate_weights(const Recipe& given, const ModelFile& weights, const std::vector<std::string>& classes,
                            const OnEvaluation& on_batch, const std::function<void(const Dataset&)>& on_data,
                            const Group& group) {
    return with_stoker_errors([&] {
        Recipe recipe = given;
        recipe.data.batch_size = shared_batch_size(recipe.data.batch_size, group);  // which changes no figure
        if (recipe.data.cache == "device") {
            recipe.data.cache = "none";  // each image is read once
        }
        recipe.data.decode_on = recipe.data.decode_on == "cpu" ? "cpu" : "auto";  // data and device may be of any kind
        const TaskKind kind = task_named(recipe.task);
        if (kind == TaskKind::custom) {
            throw Unsupported({.where = "task",
                               .expected = "a task whose loss and metrics Stoker knows",
                               .got = "custom, whose loss and metrics are in the program that trained it",
                               .hint = "call Trainer::evaluate there"});
        }
        const bool classifies = kind == TaskKind::classification;
        if (classifies && !recipe.model.classes && !classes.empty()) {  // the data may have fewer
            recipe.model.classes = static_cast<std::int64_t>(classes.size());
        }
        RecipeData data = open_val_data(recipe.data);
        if (on_data) {
            on_data(*data.val);
        }
        if (classifies && !classes.empty()) {
            data.val = match_classes(classes, "the checkpoint", data.val);
        }
        const at::Device device = prepare_device(recipe, group);
        const auto loader = make_val_loader(recipe, data, device, uses_channels_last(recipe, nullptr),
                                            channels_of(weights.metadata), group);
        require_same_data(group, *loader, weights);
        Task task = make_task(recipe, *loader);
        const auto model = make_trained_model(recipe, weights, task, device, loader->field_specs());
        constexpr std::int64_t kMostClasses = 1000;  // 8 MB
        const EvaluateOptions options{.on_batch = on_batch,
                                      .confusion = task.outputs <= kMostClasses,
                                      .precision = run_precision(recipe, device)};
        Evaluation evaluation = evaluate(*model, *loader, task, device, options, group).value();
        require_budget(group, recipe.data.bad_samples, *data.val, data.val->size(), evaluation.bad_samples);
        return evaluation;
    });
}

}  // namespace stoker
