// In which order a stage of a divided model does the passes of a step's micro-batches (pipeline parallelism), as pure
// functions. GPipe: Huang et al., "GPipe: Efficient Training of Giant Neural Networks using Pipeline Parallelism",
// 2018. 1F1B: Narayanan et al., "PipeDream: Generalized Pipeline Parallelism for DNN Training", 2019, with one flush a
// step.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace stoker {

enum class PipelineOrder : std::uint8_t {
    one_forward_one_backward,  // "1f1b": a backward pass as soon as there is one to do
    gpipe,                     // "gpipe": all forward passes, then all backward passes
};

PipelineOrder pipeline_order(std::string_view name);  // of train.pipeline

// The forward or backward pass of one micro-batch on a stage.
struct PipelineAction {
    bool backward = false;
    std::int64_t micro_batch = 0;

    bool operator==(const PipelineAction&) const = default;
};

// What stage `stage` of `stages` does in a step, in order. A forward pass needs the output of the stage before, a
// backward pass the gradient of the stage after.
std::vector<PipelineAction> pipeline_actions(PipelineOrder order, int stage, int stages, std::int64_t micro_batches);

// The most micro-batches whose activations the stage holds at once.
std::int64_t most_in_flight(PipelineOrder order, int stage, int stages, std::int64_t micro_batches);

// The share of a step in which a stage has nothing to do, with either order and stages that take equally long:
// (stages - 1) / (micro_batches + stages - 1).
double bubble_share(int stages, std::int64_t micro_batches);

}  // namespace stoker
