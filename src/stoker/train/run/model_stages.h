// A model that is divided into stages (train.mesh.pp): the partition, the tensors that pass between the stages,
// and its state brought together for checkpoints.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stoker/dist/mesh.h"
#include "stoker/models/model.h"
#include "stoker/train/step/stage_links.h"
#include "stoker/train/step/step.h"
#include "stoker/train/task/task.h"

namespace stoker {

// The places at which the model's blocks are divided.
struct StagePartition {
    std::vector<std::string> blocks;  // their names
    std::vector<double> seconds;      // of each: a micro-batch's forward and backward pass
    std::vector<std::size_t> firsts;  // the first block of each stage

    // "fc1 to fc3"
    std::string blocks_text(std::size_t stage) const;
    // The block after its last.
    std::size_t end(std::size_t stage) const { return stage + 1 < firsts.size() ? firsts[stage + 1] : blocks.size(); }
};

// "fc1 to fc3 (4.1 ms) | fc4 (3.9 ms)"
std::string partition_text(const StagePartition& partition);

// Throws InvalidArgument for a model that is not a sequence of blocks, or that has fewer with trained parameters than
// there are stages.
void require_stages(const Model& model, std::int64_t stages);

// Seconds of the forward and the backward pass of each block, for `samples` samples of noise. Leaves the model as it
// was.
std::vector<double> measure_blocks(Model& model, const Task& task, std::int64_t samples, const Precision& precision,
                                   const at::Device& device);

// The partition whose slowest stage is the fastest. Each stage has trained parameters. `seconds`: of each block.
StagePartition partition_model(const Model& model, std::vector<double> seconds, std::size_t stages);

// This rank's stage of the partition: `train` and `val` are the shapes of its messages in training and in evaluation.
struct ModelStage {
    StagePartition partition;
    StageShapes train;
    StageShapes val;
};

// What stage `stage` takes and gives for images `input`. All ranks of a stage call it, on the model before it is
// divided.
StageShapes stage_shapes(Model& model, const StagePartition& partition, std::size_t stage, Task task,
                         const Shape& input, const Precision& precision, const at::Device& device);

// Drops from a checkpoint's tensors those of other stages. The names in an optimiser's state end with a tensor's.
void keep_stage(std::vector<NamedTensor>& state, const Model& model);

// On the first rank of `stages`, `state` with the tensors of all stages in host memory, in the order of a whole model;
// on others unchanged. All stages call it.
std::vector<NamedTensor> gather_stages(std::vector<NamedTensor> state, const Model& model, const Group& stages);

}  // namespace stoker
