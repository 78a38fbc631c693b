#include "stoker/dist/pipeline_cost.h"

#include <algorithm>
#include <ranges>

#include "stoker/dist/pipeline_schedule.h"
#include "stoker/dist/stage_cut.h"

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

// As training cuts them.
std::vector<std::size_t> cut_blocks(std::span<const BlockCost> blocks, std::size_t stages) {
    std::vector<double> seconds;
    std::vector<bool> trained;
    for (const BlockCost& block : blocks) {
        seconds.push_back(block.seconds);
        trained.push_back(block.gradients > 0);
    }
    return cut_runs(seconds, trained_runs(trained), stages);
}

// The most that the backward pass of a stage takes besides the activations that all micro-batches keep. The blocks that
// it has passed have freed theirs.
std::int64_t most_passing(std::span<const BlockCost> blocks) {
    std::int64_t most = 0;
    std::int64_t freed = 0;
    for (const BlockCost& block : std::views::reverse(blocks)) {
        most = std::max(most, block.passing - freed);
        freed += block.activations;
    }
    return most;
}

std::int64_t scaled(std::int64_t bytes, double factor) {
    return static_cast<std::int64_t>(static_cast<double>(bytes) * factor);
}

}  // namespace

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
        cost.parameters = std::max(cost.parameters, total(own, &BlockCost::parameters));
        const std::int64_t held = scaled(total(own, &BlockCost::activations), shape.samples) + scaled(1, input);
        const std::int64_t passing = scaled(most_passing(own), shape.samples) + scaled(1, output);
        const auto most = [&](PipelineOrder order) {
            return held * most_in_flight(order, stage, shape.stages, shape.micro_batches) + passing;
        };
        cost.activations_1f1b = std::max(cost.activations_1f1b, most(PipelineOrder::one_forward_one_backward));
        cost.activations_gpipe = std::max(cost.activations_gpipe, most(PipelineOrder::gpipe));
    }
    const double alone = static_cast<double>(shape.micro_batches) * total(blocks, &BlockCost::seconds) * shape.samples;
    cost.step = static_cast<double>(shape.micro_batches + shape.stages - 1) * slowest + update + reduction;
    cost.efficiency = (alone + shape.update) / shape.stages / cost.step;
    return cost;
}

}  // namespace stoker
