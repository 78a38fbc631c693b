// Everything that a run needs, opened and checked before anything is trained or written.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "stoker/dist/mesh.h"
#include "stoker/models/model.h"
#include "stoker/pipeline/recipe_data.h"
#include "stoker/train/run/model_stages.h"
#include "stoker/train/step/fully_sharded_model.h"
#include "stoker/train/task/task.h"

namespace stoker {

struct TrainPlan {
    std::shared_ptr<Group> group;  // of all ranks
    Mesh mesh;                     // which ranks share batches, and with train.mesh.tp and pp the model
    Recipe recipe;
    RecipeData data;
    at::Device device;
    std::unique_ptr<Loader> train_loader;
    std::unique_ptr<Loader> val_loader;  // null without validation data
    Task task;
    std::unique_ptr<Model> model;  // on `device`, with this rank's part of the weights that training begins with
    bool own_model;                // a program's, not the recipe's
    std::vector<std::unique_ptr<Model>> replicas;  // copies on the other GPUs, with train.data_parallel
    std::unique_ptr<FullyShardedModel> full;  // the model's shards and passes, with train.shard = "full"; else null
    std::optional<ModelStage> stage;          // which one the model is; empty for a model without stages
    std::int64_t parameters;                  // elements of the whole model
    std::int64_t trained_parameters;
    bool has_weights;        // false: the model has not got its weights yet, and must get them from a checkpoint
    std::string model_hash;  // of the file of model.script or model.export; empty for other models
    std::vector<std::string> new_tensors;  // tensors that model.weights had only for another number of classes

    StepRanks step_ranks() const;
};

// `model`: null to make it from the recipe. `resumes`: the weights will come from a checkpoint, so model.weights is not
// read. `custom`: the loss and metrics of the task "custom". Compares recipes and data with the other ranks of `group`.
// Sets LibTorch's process-wide switches (prepare_device) and otherwise changes nothing outside of the plan; no file is
// written. Throws where a run would fail for a reason that can be known beforehand: data, classes, the model's input,
// outputs and smallest batch, ranks that differ.
TrainPlan plan_training(const Recipe& recipe, RecipeData data, std::unique_ptr<Model> model, bool resumes,
                        std::shared_ptr<Group> group, const CustomTask& custom = {});

}  // namespace stoker
