// Writes a run's checkpoints and reads them. They have all tensors, whole, also if each rank has a part of the model.
#pragma once

#include <filesystem>
#include <vector>

#include "stoker/train/run/checkpoint_parts.h"
#include "stoker/train/run/rank_sync.h"
#include "stoker/train/run/run_recorder.h"
#include "stoker/train/run/train_plan.h"
#include "stoker/train/step/step.h"

namespace stoker {

class Checkpointer {
  public:
    // All must outlive this object.
    Checkpointer(TrainPlan& plan, Optimizer& optimizer, Step& step, RunRecorder& recorder)
        : plan_(plan), optimizer_(optimizer), step_(step), recorder_(recorder) {}

    // Writes a checkpoint of the run, or the best one. All ranks must call it; rank 0 has the run folder.
    void save(const RunState& state, bool as_best);
    // Why a rank cannot save without the others; null: it can.
    const char* why_not_alone() const;
    // Reads a checkpoint into model, optimiser and step, and returns the rest of it. Throws InvalidArgument for one of
    // another model, optimiser or data.
    RunState load(const std::filesystem::path& checkpoint);

    // All tensors of the model on rank 0, in host memory if the ranks have parts of it. All ranks must call it.
    std::vector<NamedTensor> gather_model() const;
    // The tensors that all ranks have alike when a run starts.
    RankSync::SharedState shared_state() const;

  private:
    void write(const std::filesystem::path& folder, const std::string& state);
    Checkpoint whole() const;  // without its state
    CheckpointParts parts() const;
    ModelMetadata metadata() const;

    TrainPlan& plan_;
    Optimizer& optimizer_;
    Step& step_;
    RunRecorder& recorder_;
    bool shares_files_ = true;  // whether all ranks can write rank 0's files, as far as is known
};

}  // namespace stoker
