#include "stoker/train/run/checkpointer.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "stoker/base/map_damage.h"
#include "stoker/train/run/data_checks.h"
#include "stoker/train/run/divided_model.h"
#include "stoker/train/run/resume_checks.h"

namespace stoker {

void Checkpointer::save(const RunState& state, bool as_best) {
    const std::optional<NewCheckpoint> begun = recorder_.begin_checkpoint(state, as_best);
    if (begun) {
        write(begun->folder, begun->state);
        recorder_.keep(*begun);
    } else if (!plan_.group->first()) {
        write({}, {});
    }
}

void Checkpointer::write(const std::filesystem::path& folder, const std::string& state) {
    const bool all_have_parts = optimizer_.sharded() && !plan_.mesh.divides_model();
    if (shares_files_ && all_have_parts) {
        shares_files_ = write_parts(*plan_.group, folder, parts(), state);
        if (shares_files_) {
            return;
        }
    }
    Checkpoint checkpoint = whole();
    if (plan_.group->first()) {
        checkpoint.state = state;
        write_checkpoint(folder, checkpoint);
    }
}

const char* Checkpointer::why_not_alone() const {
    return plan_.full != nullptr        ? "the parameters are divided among the processes"
           : optimizer_.sharded()       ? "the optimizer's state is divided among the processes"
           : plan_.mesh.divides_model() ? "the model is divided among the processes"
                                        : nullptr;
}

std::vector<NamedTensor> Checkpointer::gather_model() const {
    return plan_.full != nullptr ? plan_.full->gather(plan_.full->state())
                                 : StateGatherer(*plan_.model, plan_.mesh).gather(plan_.model->state());
}

ModelMetadata Checkpointer::metadata() const {
    const bool language = plan_.task.kind == TaskKind::language;
    const Loader& loader = plan_.val_loader != nullptr ? *plan_.val_loader : *plan_.train_loader;
    return model_metadata(plan_.recipe, plan_.task, language ? plan_.task.input : loader.image_shape());
}

Checkpoint Checkpointer::whole() const {
    const StateGatherer whole(*plan_.model, plan_.mesh);
    std::vector<NamedTensor> optimizer = whole.gather(optimizer_.state());
    std::ranges::move(step_.scaler().state(), std::back_inserter(optimizer));
    return {.model = gather_model(),
            .optimizer = std::move(optimizer),
            .ema = plan_.full != nullptr ? plan_.full->gather(step_.ema().state()) : whole.gather(step_.ema().state()),
            .metadata = metadata()};
}

CheckpointParts Checkpointer::parts() const {
    const auto whole = [&](const std::vector<NamedTensor>& tensors) {
        StateParts all;
        all.add_whole(tensors, plan_.group->first());
        return all;
    };
    const bool full = plan_.full != nullptr;
    CheckpointParts parts{.model = full ? plan_.full->parts(plan_.full->state()) : whole(plan_.model->state()),
                          .optimizer = optimizer_.parts(),
                          .ema = full ? plan_.full->parts(step_.ema().state()) : whole(step_.ema().state()),
                          .metadata = metadata()};
    parts.optimizer.add_whole(step_.scaler().state(), plan_.group->first());
    return parts;
}

RunState Checkpointer::load(const std::filesystem::path& checkpoint) {
    Checkpoint saved = read_checkpoint(checkpoint);
    RunState state = run_state_from_json(saved.state);
    state.recipe = read_trained_recipe(checkpoint);
    require_same_model(state.recipe, plan_.recipe);
    require_same_file(read_model_hash(checkpoint), plan_.model_hash, plan_.recipe.model);
    require_same_optimizer(state.recipe, plan_.recipe);
    require_same_sampler(plan_.train_loader->state(), state.loader);  // before tensors, whose shapes follow the classes
    if (plan_.task.classifies() || !state.classes.empty()) {
        require_classes(state.classes, "the checkpoint", plan_.task.classes, plan_.data.train->path());
    }
    for (auto* tensors : {&saved.model, &saved.optimizer, &saved.ema}) {
        keep_part(*tensors, *plan_.model, *plan_.mesh.tensor);
    }
    if (plan_.full != nullptr) {
        plan_.full->load(saved.model, checkpoint.string());
        saved.ema = saved.ema.empty() ? saved.ema : plan_.full->divide(saved.ema, "averaged weights");
    } else {
        plan_.model->load(saved.model, checkpoint.string());
    }
    step_.load(saved.optimizer, saved.ema);
    check_maps();  // of the checkpoint's files
    plan_.has_weights = true;
    return state;
}

RankSync::SharedState Checkpointer::shared_state() const {
    RankSync::SharedState state;
    const auto add = [&](const std::vector<NamedTensor>& tensors) {
        for (const NamedTensor& entry : tensors) {
            const bool slice = slice_in(*plan_.model, entry) != nullptr;
            (slice ? state.slices : state.whole).push_back(entry.tensor);
        }
    };
    add(step_.scaler().state());
    if (plan_.full != nullptr) {  // each rank has another part of all else; the shards are made of rank 0's parameters
        add(plan_.model->buffers());
        return state;
    }
    add(plan_.model->state());
    if (!optimizer_.sharded()) {  // else each rank has another part of it
        add(optimizer_.state());
    }
    add(step_.ema().state());
    return state;
}

}  // namespace stoker
