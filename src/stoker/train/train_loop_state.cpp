// What a checkpoint holds of the loop, and how a run takes it up again.
#include <algorithm>
#include <iterator>
#include <utility>

#include "stoker/base/map_damage.h"
#include "stoker/train/run/divided_model.h"
#include "stoker/train/run/model_checks.h"
#include "stoker/train/run/resume_checks.h"
#include "stoker/train/run/run_setup.h"
#include "stoker/train/run/step_state.h"
#include "stoker/train/train_loop.h"

namespace stoker {

std::vector<NamedTensor> TrainLoop::gather_model() const {
    return plan_.full != nullptr ? plan_.full->gather(plan_.full->state())
                                 : StateGatherer(*plan_.model, plan_.mesh).gather(plan_.model->state());
}

ModelMetadata TrainLoop::metadata() const {
    const bool language = plan_.task.kind == TaskKind::language;
    const Loader& loader = plan_.val_loader != nullptr ? *plan_.val_loader : *plan_.train_loader;
    return model_metadata(plan_.recipe, plan_.task, language ? plan_.task.input : loader.image_shape(),
                          plan_.data.train->classes());
}

Checkpoint TrainLoop::checkpoint() {
    const StateGatherer whole(*plan_.model, plan_.mesh);
    std::vector<NamedTensor> optimizer = whole.gather(optimizer_.state());
    std::ranges::move(scaler_tensors(step_), std::back_inserter(optimizer));
    return {.model = gather_model(),
            .optimizer = std::move(optimizer),
            .ema = plan_.full != nullptr ? plan_.full->gather(ema_tensors(step_)) : whole.gather(ema_tensors(step_)),
            .metadata = metadata()};
}

// Whether every rank has a part of the checkpoint to write.
bool TrainLoop::has_parts() const {
    return optimizer_.sharded() && !plan_.mesh.divides_model();
}

CheckpointParts TrainLoop::checkpoint_parts() const {
    const auto whole = [&](const std::vector<NamedTensor>& tensors) {
        StateParts parts;
        for (const NamedTensor& entry : tensors) {
            parts.add_whole(entry, plan_.group->first());
        }
        return parts;
    };
    const bool full = plan_.full != nullptr;
    CheckpointParts parts{.model = full ? plan_.full->parts(plan_.full->state()) : whole(plan_.model->state()),
                          .optimizer = optimizer_.parts(),
                          .ema = full ? plan_.full->parts(ema_tensors(step_)) : whole(ema_tensors(step_)),
                          .metadata = metadata()};
    for (const NamedTensor& entry : scaler_tensors(step_)) {
        parts.optimizer.add_whole(entry, plan_.group->first());
    }
    return parts;
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
    RunState state = run_state_from_json(saved.state);
    require_same_sampler(plan_.train_loader->state(), state.loader);  // before tensors, whose shapes follow the classes
    require_classes(state.classes, "the checkpoint", *plan_.data.train);
    for (auto* tensors : {&saved.model, &saved.optimizer, &saved.ema}) {
        keep_part(*tensors, *plan_.model, *plan_.mesh.tensor);
    }
    if (plan_.full != nullptr) {
        plan_.full->load(saved.model, checkpoint.string());
        saved.ema = saved.ema.empty() ? saved.ema : plan_.full->divide(saved.ema, "averaged weights");
    } else {
        plan_.model->load(saved.model, checkpoint.string());
    }
    load_step(saved, optimizer_, step_);
    check_maps();  // of the checkpoint's files
    Loaded loaded{.recipe = std::move(recipe), .metrics_bytes = state.metrics_bytes, .data = state.data};
    restore(std::move(state));
    plan_.has_weights = true;
    return loaded;
}

void TrainLoop::restore(RunState state) {
    require_consistent(state, plan_.train_loader->batches_per_epoch());
    plan_.train_loader->restore(state.loader);
    step_.accumulate_at_least(state.accumulate, plan_.train_loader->batch_sampler().max_slice());
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

RankSync::SharedState TrainLoop::shared_state() {
    RankSync::SharedState state;
    const auto add = [&](const std::vector<NamedTensor>& tensors) {
        for (const NamedTensor& entry : tensors) {
            const bool slice = slice_in(*plan_.model, entry) != nullptr;
            (slice ? state.slices : state.whole).push_back(entry.tensor);
        }
    };
    add(scaler_tensors(step_));
    if (plan_.full != nullptr) {  // each rank has another part of all else; the shards are made of rank 0's parameters
        add(plan_.model->buffers());
        return state;
    }
    add(plan_.model->state());
    if (!optimizer_.sharded()) {  // else each rank has another part of it
        add(optimizer_.state());
    }
    add(ema_tensors(step_));
    return state;
}

// All ranks make the checkpoint; rank 0 has the run folder.
void TrainLoop::write_checkpoint(bool as_best) {
    const auto write = [&](const std::filesystem::path& folder, const std::string& state) {
        write_files(folder, state);
    };
    if (!plan_.group->first()) {
        write({}, {});
    } else if (as_best) {
        recorder_.save_best(state(), write);
    } else {
        recorder_.save(state(), write);
    }
    if (!as_best) {
        saved_steps_ = steps_;
        saved_epochs_ = std::ssize(epochs_);
    }
}

void TrainLoop::write_files(const std::filesystem::path& folder, const std::string& state) {
    if (shares_files_ && has_parts()) {
        shares_files_ = write_parts(*plan_.group, folder, checkpoint_parts(), state);
        if (shares_files_) {
            return;
        }
    }
    Checkpoint whole = checkpoint();
    if (plan_.group->first()) {
        whole.state = state;
        stoker::write_checkpoint(folder, whole);
    }
}

}  // namespace stoker
