// Predicts the step of a model that is divided into stages (train.mesh.pp), for `stoker plan`. Formulas are in
// bench/results/scaling.md.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "stoker/dist/cost_model.h"

namespace stoker {

// Bytes of tensors: some grow with the samples, such as activations, and some do not, such as gradients of weights.
struct SampleBytes {
    double fixed = 0;
    double grows = 0;  // for the samples of one measured micro-batch

    // From what they are with all samples of the micro-batch, and with a share of them below 1.
    static SampleBytes measured(double all, double part, double share);
    double of(double samples) const { return fixed + grows * samples; }
};

// A block of a model, with the samples of one measured micro-batch.
struct BlockCost {
    double seconds = 0;            // of its forward and its backward pass
    SampleBytes activations = {};  // that it keeps from the forward to the backward pass
    SampleBytes passing = {};      // that its backward pass takes besides them and the output's gradient
    std::int64_t output = 0;       // bytes that it gives the next block
    std::int64_t parameters = 0;   // bytes, with buffers
    std::int64_t gradients = 0;    // bytes; 0: nothing of it is trained
};

struct PipelineShape {
    int stages = 1;
    int copies = 1;
    std::int64_t micro_batches = 1;
    double samples = 1;         // of a micro-batch, by those of the measured one
    double update = 0;          // seconds of a whole model's update
    double gradient_scale = 1;  // as Distribution::gradient_scale
};

// Bytes that a stage holds.
struct StageMemory {
    std::int64_t parameters = 0;
    std::int64_t gradients = 0;
    std::int64_t activations_1f1b = 0;
    std::int64_t activations_gpipe = 0;
};

struct PipelineCost {
    std::vector<std::size_t> firsts;       // the first block of each stage
    double bubble = 0;                     // share of a step, with stages that take equally long
    double step = 0;                       // seconds
    double efficiency = 1;                 // a copy's passes without others, divided among its ranks, by `step`
    double messages = 0;                   // bytes that the busiest stage sends in a step
    double message_seconds = 0;            // of the activations and the gradient of one micro-batch
    std::vector<StageMemory> memory = {};  // of each stage

    // The figure of the stage with the largest one.
    std::int64_t most(std::int64_t StageMemory::*bytes) const;
};

// At least as many blocks as `shape.stages` are trained.
PipelineCost predict_pipeline(std::span<const BlockCost> blocks, const PipelineShape& shape, const Link& link);

}  // namespace stoker
