// Writes a run's checkpoints and reads them. A checkpoint has all tensors, whole, whichever part of them a rank has.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "stoker/train/run/checkpoint_parts.h"
#include "stoker/train/run/divided_model.h"
#include "stoker/train/run/rank_sync.h"
#include "stoker/train/run/run_recorder.h"
#include "stoker/train/run/train_plan.h"

namespace stoker {

class Checkpointer {
  public:
    // All must outlive this object.
    Checkpointer(TrainPlan& plan, Step& step, RunRecorder& recorder)
        : plan_(plan), step_(step), recorder_(recorder), part_(*plan.model, plan.mesh, plan.full.get()) {}

    // Writes a checkpoint of the run, or its best one, after `state`. All ranks must call it; rank 0 has the run
    // folder.
    void save(RunState state, bool as_best);
    // Why a rank cannot save without the others; null: it can.
    const char* why_not_alone() const;

    // The rest of a checkpoint besides tensors.
    struct Loaded {
        std::string recipe;  // TOML, of the run that wrote it
        RunState state;
    };
    // Reads the tensors of a checkpoint into model and step. Throws InvalidArgument for one of another model, optimiser
    // or data.
    Loaded load(const std::filesystem::path& checkpoint);

    // All tensors of the model on rank 0, in host memory if the ranks have parts of it. All ranks must call it.
    std::vector<NamedTensor> gather_model() const { return part_.gather(part_.state()); }
    // The tensors that all ranks have alike when a run starts.
    RankSync::SharedState shared_state();

  private:
    void write(const std::filesystem::path& folder, const std::string& state);
    Checkpoint whole() const;
    CheckpointParts parts() const;
    ModelMetadata metadata() const;

    TrainPlan& plan_;
    Step& step_;
    RunRecorder& recorder_;
    PartOfModel part_;
    bool shares_files_ = true;  // whether all ranks can write rank 0's files, as far as is known
};

}  // namespace stoker
