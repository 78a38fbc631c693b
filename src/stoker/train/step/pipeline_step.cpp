#include "stoker/train/step/pipeline_step.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "stoker/base/error.h"

namespace stoker {

void PipelineStep::run(std::int64_t samples, std::int64_t parts, const MicroBatchPasses& passes) {
    struct InFlight {
        at::Tensor input;   // (part's samples, ...) from the stage before
        at::Tensor output;  // with its graph
    };
    std::vector<InFlight> all(static_cast<std::size_t>(parts));
    std::int64_t in_flight = 0;
    const Clock::time_point begin = Clock::now();
    for (const PipelineAction& action : pipeline_actions(order_, stages_.rank(), stages_.size(), parts)) {
        const std::int64_t part = action.micro_batch;
        const std::int64_t size = micro_batch_begin(samples, part + 1, parts) - micro_batch_begin(samples, part, parts);
        InFlight& own = all[static_cast<std::size_t>(part)];
        if (!action.backward) {
            if (!links_.first()) {
                wait([&] { own.input = links_.receive_input(size).requires_grad_(); });
            }
            own.output = passes.forward(part, own.input);
            most_in_flight_ = std::max(most_in_flight_, ++in_flight);
            if (!last()) {
                wait([&] { links_.send_output(own.output); });
            }
            continue;
        }
        at::Tensor gradient;  // of own.output, in its shape
        if (!last()) {
            wait([&] { gradient = links_.receive_gradient(size); });
        }
        passes.backward(part, own.output, gradient);
        if (!links_.first()) {
            if (size > 0 && !own.input.grad().defined()) {  // the stage before would wait for it
                throw InternalError({.where = "pipeline step",
                                     .expected = "a gradient of the stage's input",
                                     .got = "none for micro-batch " + std::to_string(part)});
            }
            wait([&] { links_.send_gradient(own.input.grad()); });
        }
        own = {};
        --in_flight;
    }
    wait([&] { links_.flush(); });
    total_ += Clock::now() - begin;
}

void PipelineStep::sum(const at::Tensor& values) {
    const Clock::time_point begin = Clock::now();
    wait([&] { stages_.all_reduce(values); });
    total_ += Clock::now() - begin;
}

void PipelineStep::wait(const std::function<void()>& until_done) {
    const PhaseSpan span(account_, Phase::communication);
    const Clock::time_point begin = Clock::now();
    until_done();
    idle_ += Clock::now() - begin;
}

std::optional<double> PipelineStep::take_idle_share() {
    const auto idle = std::exchange(idle_, std::chrono::nanoseconds{0});
    const auto total = std::exchange(total_, std::chrono::nanoseconds{0});
    return total.count() > 0 ? std::optional(static_cast<double>(idle.count()) / static_cast<double>(total.count()))
                             : std::nullopt;
}

}  // namespace stoker
