// The passes of a step over its micro-batches on one stage of a model (train.mesh.pp), in the order of the schedule
// (dist/pipeline_schedule.h), with the messages to the stages before and after.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>

#include "stoker/dist/group.h"
#include "stoker/dist/pipeline_schedule.h"
#include "stoker/records/account.h"
#include "stoker/train/step/stage_links.h"

namespace stoker {

// This rank's stage.
struct StagePlan {
    const Group* stages = nullptr;  // the ranks of one copy of the model, in order; must outlive the step
    PipelineOrder order = PipelineOrder::one_forward_one_backward;
    StageShapes shapes = {};
};

class PipelineStep {
  public:
    // Both passes of a micro-batch on this stage.
    struct Passes {
        // The stage's output for `input`, which is undefined on the first stage; on the last one the loss.
        std::function<at::Tensor(std::int64_t part, const at::Tensor& input)> forward;
        // Adds the gradients of `output`, of the pass above. `gradient` is undefined for a loss. Sets the grad of the
        // pass' `input`.
        std::function<void(std::int64_t part, const at::Tensor& output, const at::Tensor& gradient)> backward;
    };

    PipelineStep(const StagePlan& plan, Account& account)
        : stages_(*plan.stages), order_(plan.order), links_(stages_, plan.shapes), account_(account) {}

    bool last() const { return links_.last(); }

    // Makes all passes of `samples` samples in `parts` micro-batches. All stages call it, with the same arguments.
    void run(std::int64_t samples, std::int64_t parts, const Passes& passes);

    // Sums over the stages, in place. Waits for the slowest.
    void sum(const at::Tensor& values);

    // The share of the time since the last call that this stage waited for others, in `run` and `sum`. Empty if neither
    // was called. The wait after a stage's last pass counts to the next step.
    std::optional<double> take_idle_share();
    // The most micro-batches so far whose activations were held at once.
    std::int64_t most_in_flight() const { return most_in_flight_; }

  private:
    using Clock = std::chrono::steady_clock;

    void wait(const std::function<void()>& until_done);

    const Group& stages_;
    PipelineOrder order_;
    StageLinks links_;
    Account& account_;
    std::chrono::nanoseconds idle_{0};
    std::chrono::nanoseconds total_{0};
    std::int64_t most_in_flight_ = 0;
};

// The start of part `part` of `parts` of so many samples; micro-batches are as even as possible.
inline std::int64_t micro_batch_begin(std::int64_t samples, std::int64_t part, std::int64_t parts) {
    return samples * part / parts;
}

}  // namespace stoker
