// The loop's records of its steps: losses, facts, intervals.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/dist/pipeline_schedule.h"
#include "stoker/records/accounting.h"
#include "stoker/records/records_json.h"
#include "stoker/train/run/run_facts.h"
#include "stoker/train/train_loop.h"

namespace stoker {

void TrainLoop::record_losses(bool last) {
    const char* const before = std::exchange(unsavable_, "the losses of its last steps are not all recorded");
    const auto start = Account::Clock::now();
    std::vector<double> losses;
    {
        const PhaseSpan span(account_, Phase::sync);  // the losses are complete when the device has done its steps
        losses = step_->take_losses();
    }
    const std::chrono::nanoseconds waited = Account::Clock::now() - start;
    std::vector<StepResult> steps = std::exchange(pending_, {});
    if (!plan_.group->alone() && !steps.empty()) {
        const PhaseSpan span(account_, Phase::communication);
        bad_samples_ = ranks_.merge(steps, losses, bad_samples_, *plan_.train_loader);
        recorder_.bad_samples(ranks_.gather_bad_samples());
        ranks_.require_budget(*plan_.data.train, plan_.train_loader->batch_sampler().options().size,
                              sums_.bad_samples + bad_samples_);
    }
    sums_.bad_samples += std::exchange(bad_samples_, 0);
    loss_ = losses.empty() ? loss_ : std::optional(losses.back());
    for (std::size_t i = 0; i < steps.size(); ++i) {
        sums_.loss += losses[i] * static_cast<double>(steps[i].samples);
        recorder_.step(steps[i], losses[i]);
        if (!std::isfinite(losses[i]) && plan_.recipe.train.stop_at_nan) {
            unsavable_ = "its loss is not finite";
            refuse_loss(steps[i], losses[i]);
        }
    }
    record_interval(steps, waited, last);
    unsavable_ = before;
}

void TrainLoop::record_facts() {
    facts_ = run_facts(plan_, *step_, optimizer_);
    recorder_.records(ranks_.gather_lines(to_json_line(facts_, steps_) + "\n"));
}

// Each of several ranks ends its own intervals, and all take part in every exchange.
void TrainLoop::record_interval(std::span<const StepResult> steps, std::chrono::nanoseconds sync, bool last) {
    if (!accounting() || (steps.empty() && !last)) {
        return;
    }
    std::string lines = changed_facts();
    if (const auto interval = intervals_.add(steps, sync, last)) {
        lines += to_json_line(*interval, plan_.group->rank()) + "\n";
    }
    if (!plan_.group->alone()) {
        const PhaseSpan span(account_, Phase::communication);
        lines = ranks_.gather_lines(lines);
    }
    recorder_.records(lines);
}

// A facts line if the form of the step has changed: a CUDA graph is captured in an early step, and a step that ran out
// of memory is split.
std::string TrainLoop::changed_facts() {
    const std::string compiled = step_->compiled();
    const int accumulate = static_cast<int>(step_->accumulate());
    if (compiled == facts_.train.compiled && accumulate == facts_.train.accumulate) {
        return "";
    }
    facts_.train.compiled = compiled;
    facts_.train.accumulate = accumulate;
    return to_json_line(facts_, steps_) + "\n";
}

std::optional<double> TrainLoop::known_loss() const {
    // With several ranks, a step's own loss is of this rank's samples only.
    const std::optional<double> last = plan_.mesh.figures->alone() ? step_->loss_on_host() : std::nullopt;
    return last ? last : loss_;
}

void TrainLoop::discard_losses() {
    unsavable_ = nullptr;
    pending_.clear();
    bad_samples_ = 0;
    step_->take_losses();
}

void TrainLoop::refuse_loss(const StepResult& step, double loss) const {
    constexpr std::size_t kNamed = 5;
    std::string samples;
    for (std::size_t i = 0; i < std::min(step.indices.size(), kNamed); ++i) {
        samples += (i == 0 ? "" : ", ") + plan_.data.train->key(step.indices[i]);
    }
    const std::size_t others = step.indices.size() - std::min(step.indices.size(), kNamed);
    throw InvalidArgument(
        {.where = "train",
         .expected = "a finite loss",
         .got = fmt::format("{} in step {}, of the samples {}{}", std::isnan(loss) ? "nan" : "infinity", step.step,
                            samples, others > 0 ? fmt::format(" and {} more", others) : ""),
         .hint = "lower optimizer.lr, set train.clip_norm, or look at these samples; "
                 "train.stop_at_nan = false continues with such losses"});
}

// The bubble in the steps of an epoch that ends.
std::optional<Bubble> TrainLoop::bubble() {
    const std::optional<double> idle = step_->take_idle_share();
    if (!idle) {
        return std::nullopt;
    }
    const std::int64_t samples = plan_.recipe.data.batch_size / plan_.mesh.data->size();
    return Bubble{.formula = bubble_share(plan_.mesh.pipeline->size(), std::min(step_->accumulate(), samples)),
                  .stages = ranks_.of_stages(*idle)};
}

}  // namespace stoker
