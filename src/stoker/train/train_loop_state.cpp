// What a checkpoint holds of the loop, and how a run takes it up again.
#include <algorithm>
#include <iterator>
#include <utility>

#include "stoker/train/run/model_checks.h"
#include "stoker/train/run/resume_checks.h"
#include "stoker/train/run/run_setup.h"
#include "stoker/train/train_loop.h"

namespace stoker {

// The optimiser's tensors, then the loss scaler's.
std::vector<NamedTensor> TrainLoop::optimizer_tensors() const {
    std::vector<NamedTensor> tensors = optimizer_.state();
    if (const Scaler* scaler = step_.scaler()) {
        std::ranges::move(scaler->state(), std::back_inserter(tensors));
    }
    return tensors;
}

std::vector<NamedTensor> TrainLoop::ema_tensors() {
    return step_.ema() != nullptr ? step_.ema()->state() : std::vector<NamedTensor>();
}

Checkpoint TrainLoop::checkpoint() {
    const bool language = plan_.task.kind == TaskKind::language;
    const Loader& loader = plan_.val_loader != nullptr ? *plan_.val_loader : *plan_.train_loader;
    return {.model = plan_.model->state(),
            .optimizer = optimizer_tensors(),
            .ema = ema_tensors(),
            .metadata = model_metadata(plan_.recipe, plan_.task, language ? plan_.task.input : loader.image_shape(),
                                       plan_.data.train->classes())};
}

RunState TrainLoop::state() const {
    const std::span<const std::string> classes = plan_.data.train->classes();
    LoaderState loader = plan_.train_loader->state();
    // The position after the last step: the loader may have gone on to a batch that failed.
    const std::int64_t per_epoch = plan_.train_loader->batches_per_epoch();
    loader.epoch = steps_ / per_epoch;
    loader.batch = steps_ % per_epoch;
    loader.bad_samples = loader.batch == 0 ? 0 : sums_.bad_samples;  // of all ranks
    return {.loader = loader,
            .classes = {classes.begin(), classes.end()},
            .step = steps_,
            .epochs = epochs_,
            .sums = sums_,
            .account = account_.sum(),
            .accumulate = step_.accumulate() > plan_.recipe.train.accumulate ? step_.accumulate() : 1,
            .recipe = recipe_to_toml(plan_.recipe),
            .model_hash = plan_.model_hash,
            .data = summary_of(*plan_.data.train)};
}

TrainLoop::Loaded TrainLoop::load(const std::filesystem::path& checkpoint) {
    Checkpoint saved = read_checkpoint(checkpoint);
    std::string recipe = read_trained_recipe(checkpoint);
    require_same_model(recipe, plan_.recipe);
    require_same_file(read_model_hash(checkpoint), plan_.model_hash, plan_.recipe.model);
    require_same_optimizer(recipe, plan_.recipe);
    plan_.model->load(saved.model, checkpoint.string());
    const auto scaler =
        std::stable_partition(saved.optimizer.begin(), saved.optimizer.end(),
                              [](const NamedTensor& entry) { return !entry.name.starts_with("scaler."); });
    optimizer_.load({saved.optimizer.begin(), scaler});
    step_.load({scaler, saved.optimizer.end()}, saved.ema);
    RunState state = run_state_from_json(saved.state);
    Loaded loaded{.recipe = std::move(recipe), .metrics_bytes = state.metrics_bytes, .data = state.data};
    restore(std::move(state));
    plan_.has_weights = true;
    return loaded;
}

void TrainLoop::restore(RunState state) {
    require_same_sampler(plan_.train_loader->state(), state.loader);
    require_classes(state.classes, "the checkpoint", *plan_.data.train);
    require_consistent(state, plan_.train_loader->batches_per_epoch());
    plan_.train_loader->restore(state.loader);
    step_.accumulate_at_least(state.accumulate);
    account_.restore(state.account);
    steps_ = state.step;
    epochs_ = std::move(state.epochs);
    for (EpochResult& epoch : epochs_) {
        set_directions(plan_.task, epoch.val_metrics);
    }
    sums_ = state.sums;
    saved_steps_ = steps_;
    saved_epochs_ = std::ssize(epochs_);
    unsavable_ = nullptr;
}

std::vector<at::Tensor> TrainLoop::tensors() {
    std::vector<at::Tensor> all;
    const auto add = [&](const std::vector<NamedTensor>& tensors) {
        std::ranges::transform(tensors, std::back_inserter(all), &NamedTensor::tensor);
    };
    add(plan_.model->state());
    add(optimizer_tensors());
    add(ema_tensors());
    return all;
}

}  // namespace stoker
