#include "stoker/train/run/checkpointer.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "stoker/base/map_damage.h"
#include "stoker/train/run/model_checks.h"
#include "stoker/train/run/resume_checks.h"

namespace stoker {

void Checkpointer::save(RunState state, bool as_best) {
    const std::optional<NewCheckpoint> begun = recorder_.begin_checkpoint(std::move(state), as_best);
    if (begun) {
        write(begun->folder.path(), begun->state);
        recorder_.keep(*begun);
    } else if (!plan_.group->first()) {
        write({}, {});
    }
}

void Checkpointer::write(const std::filesystem::path& folder, const std::string& state) {
    const bool every_rank_has_a_part = step_.optimizer().sharded() && !plan_.mesh.divides_model();
    if (shares_files_ && every_rank_has_a_part) {
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
    return plan_.full != nullptr         ? "the parameters are divided among the processes"
           : step_.optimizer().sharded() ? "the optimizer's state is divided among the processes"
           : plan_.mesh.divides_model()  ? "the model is divided among the processes"
                                         : nullptr;
}

Checkpoint Checkpointer::whole() const {
    StepState own = step_.state();
    std::vector<NamedTensor> optimizer = part_.gather_slices(std::move(own.optimizer));
    std::ranges::move(own.scaler, std::back_inserter(optimizer));
    return {.model = gather_model(),
            .optimizer = std::move(optimizer),
            .ema = part_.gather(own.ema),
            .metadata = metadata()};
}

CheckpointParts Checkpointer::parts() const {
    const bool first = plan_.group->first();
    CheckpointParts parts{.model = part_.parts(part_.state(), first),
                          .optimizer = step_.optimizer().parts(),
                          .ema = part_.parts(step_.ema().state(), first),
                          .metadata = metadata()};
    for (const NamedTensor& entry : step_.scaler().state()) {
        parts.optimizer.add_whole(entry, first);
    }
    return parts;
}

ModelMetadata Checkpointer::metadata() const {
    const bool language = plan_.task.kind == TaskKind::language;
    const Loader& loader = plan_.val_loader != nullptr ? *plan_.val_loader : *plan_.train_loader;
    return model_metadata(plan_.recipe, plan_.task, language ? plan_.task.input : loader.image_shape(),
                          plan_.data.train->classes());
}

Checkpointer::Loaded Checkpointer::load(const std::filesystem::path& checkpoint) {
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
    part_.load(saved.model, checkpoint.string());
    step_.load(
        {.optimizer = std::move(saved.optimizer), .ema = part_.divide(std::move(saved.ema), "averaged weights")});
    check_maps();  // of the checkpoint's files
    return {.recipe = std::move(recipe), .state = std::move(state)};
}

RankSync::SharedState Checkpointer::shared_state() {
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
    if (!step_.optimizer().sharded()) {  // else each rank has another part of it
        add(step_.optimizer().state());
    }
    add(step_.ema().state());
    return state;
}

}  // namespace stoker
