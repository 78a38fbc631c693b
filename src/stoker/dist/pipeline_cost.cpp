#include "stoker/dist/pipeline_cost.h"

#include <algorithm>
#include <ranges>

#include "stoker/dist/pipeline_schedule.h"
#include "stoker/dist/stage_partition.h"

namespace stoker {
namespace {

template <typename Value>
Value total(std::span<const BlockCost> blocks, Value BlockCost::*member) {
    Value sum = 0;
    for (const BlockCost& block : blocks) {
        sum += block.*member;
    }
    return sum;
}

// As training divides them.
std::vector<std::size_t> cut_blocks(std::span<const BlockCost> blocks, std::size_t stages) {
    std::vector<double> seconds;
    std::vector<bool> trained;
    for (const BlockCost& block : blocks) {
        seconds.push_back(block.seconds);
        trained.push_back(block.gradients > 0);
    }
    return partition_runs(seconds, trained_runs(trained), stages);
}

// The most that the backward pass of a stage takes besides the activations that all micro-batches keep. The blocks that
// it has passed have freed theirs.
double most_passing(std::span<const BlockCost> blocks, double samples) {
    double most = 0;
    double freed = 0;
    for (const BlockCost& block : std::views::reverse(blocks)) {
        most = std::max(most, block.passing.of(samples) - freed);
        freed += block.activations.of(samples);
    }
    return most;
}

}  // namespace

SampleBytes SampleBytes::measured(double all, double part, double share) {
    const double grows = std::clamp((all - part) / (1 - share), 0.0, all);
    return {.fixed = all - grows, .grows = grows};
}

std::int64_t PipelineCost::most(std::int64_t StageMemory::*bytes) const {
    std::int64_t most = 0;
    for (const StageMemory& stage : memory) {
        most = std::max(most, stage.*bytes);
    }
    return most;
}

PipelineCost predict_pipeline(std::span<const BlockCost> blocks, const PipelineShape& shape, const Link& link) {
    PipelineCost cost{.firsts = cut_blocks(blocks, static_cast<std::size_t>(shape.stages)),
                      .bubble = bubble_share(shape.stages, shape.micro_batches)};
    double slowest = 0;  // seconds of a micro-batch, with its messages
    double update = 0;
    double reduction = 0;
    const double all_gradients = static_cast<double>(std::max<std::int64_t>(total(blocks, &BlockCost::gradients), 1));
    for (int stage = 0; stage < shape.stages; ++stage) {
        const auto at = static_cast<std::size_t>(stage);
        const std::size_t end = stage + 1 < shape.stages ? cost.firsts[at + 1] : blocks.size();
        const auto own = blocks.subspan(cost.firsts[at], end - cost.firsts[at]);
        const double input = stage > 0 ? static_cast<double>(blocks[cost.firsts[at] - 1].output) * shape.samples : 0;
        const double output = stage + 1 < shape.stages ? static_cast<double>(own.back().output) * shape.samples : 0;
        // A link sends and receives at once: the output goes while the gradient of the input does.
        const double messages = (input > 0 ? 2 : 1) * link.latency + std::max(input, output) / link.bytes_per_second;
        const double passes = total(own, &BlockCost::seconds) * shape.samples;
        const double gradients = static_cast<double>(total(own, &BlockCost::gradients));
        if (shape.stages > 1) {
            cost.messages = std::max(cost.messages, static_cast<double>(shape.micro_batches) * (input + output));
            cost.message_seconds = std::max(cost.message_seconds, messages);
        }
        slowest = std::max(slowest, passes + (shape.stages > 1 ? messages : 0));
        update = std::max(update, shape.update * gradients / all_gradients);
        reduction = std::max(reduction, all_reduce_seconds(gradients * shape.gradient_scale, shape.copies, link));
        double held = input;
        for (const BlockCost& block : own) {
            held += block.activations.of(shape.samples);
        }
        const double passing = most_passing(own, shape.samples) + output;
        const auto activations = [&](PipelineOrder order, double sent) {
            const auto in_flight = static_cast<double>(most_in_flight(order, stage, shape.stages, shape.micro_batches));
            return static_cast<std::int64_t>(held * in_flight + passing + sent);
        };
        // In 1f1b the gradient of the micro-batch before is still on its way.
        cost.memory.push_back({.parameters = total(own, &BlockCost::parameters),
                               .gradients = total(own, &BlockCost::gradients),
                               .activations_1f1b = activations(PipelineOrder::one_forward_one_backward, input),
                               .activations_gpipe = activations(PipelineOrder::gpipe, 0)});
    }
    const double alone = static_cast<double>(shape.micro_batches) * total(blocks, &BlockCost::seconds) * shape.samples;
    cost.step = static_cast<double>(shape.micro_batches + shape.stages - 1) * slowest + update + reduction;
    cost.efficiency = (alone + shape.update) / shape.stages / cost.step;
    return cost;
}

}  // namespace stoker
