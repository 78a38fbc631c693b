// One cycle: Smith and Topin, "Super-Convergence", 2018; cosine: Loshchilov and Hutter, "SGDR", 2017; both as in
// PyTorch.
#include "stoker/train/step/schedule.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace stoker {
namespace {

double cosine(double from, double to, double share) {
    return to + (from - to) / 2 * (1 + std::cos(std::numbers::pi * share));
}

double one_cycle(const ScheduleRecipe& schedule, double lr, const StepPosition& position) {
    const double start = lr / schedule.div_factor;
    const double peak = schedule.pct_start * static_cast<double>(position.total) - 1;
    const double last = static_cast<double>(position.total) - 1;
    const double at = static_cast<double>(std::min(position.step, position.total - 1));
    if (at <= peak) {
        return cosine(start, lr, peak > 0 ? at / peak : 1);
    }
    return cosine(lr, start / schedule.final_div_factor, last > peak ? (at - peak) / (last - peak) : 1);
}

// How often the loss has failed to improve for longer than patience.
int reductions(const ScheduleRecipe& schedule, std::span<const double> losses) {
    double best = std::numeric_limits<double>::infinity();
    std::int64_t waited = 0;
    int count = 0;
    for (const double loss : losses) {
        if (loss < best * (1 - schedule.threshold)) {
            best = loss;
            waited = 0;
        } else if (++waited > schedule.patience) {
            ++count;
            waited = 0;
        }
    }
    return count;
}

// The factor on lr at step `step` of `total`, both counted after the warm-up.
double factor(const ScheduleRecipe& schedule, std::int64_t step, std::int64_t total, std::int64_t epoch,
              std::span<const double> val_losses) {
    const double share =
        std::min(static_cast<double>(step) / static_cast<double>(std::max<std::int64_t>(total, 1)), 1.0);
    if (schedule.name == "linear") {
        return 1 + (schedule.end_factor - 1) * share;
    }
    if (schedule.name == "cosine") {
        return cosine(1, schedule.end_factor, share);
    }
    if (schedule.name == "step") {
        return std::pow(schedule.gamma, static_cast<double>(epoch / schedule.step_size));
    }
    if (schedule.name == "multi_step") {
        const auto passed = std::ranges::count_if(schedule.milestones, [&](std::int64_t at) { return at <= epoch; });
        return std::pow(schedule.gamma, static_cast<double>(passed));
    }
    if (schedule.name == "plateau") {
        return std::pow(schedule.gamma, reductions(schedule, val_losses));
    }
    return 1;
}

}  // namespace

double learning_rate(const ScheduleRecipe& schedule, double lr, const StepPosition& position,
                     std::span<const double> val_losses) {
    if (schedule.name == "one_cycle") {
        return one_cycle(schedule, lr, position);
    }
    const std::int64_t warmup =
        std::min(schedule.warmup.count * (schedule.warmup.epochs ? position.steps_per_epoch : 1), position.total);
    const double after = factor(schedule, std::max<std::int64_t>(position.step - warmup, 0), position.total - warmup,
                                position.step / position.steps_per_epoch, val_losses);
    if (position.step >= warmup) {
        return lr * after;
    }
    const double rise = static_cast<double>(position.step) / static_cast<double>(warmup);
    return lr * after * (schedule.warmup_factor + (1 - schedule.warmup_factor) * rise);
}

}  // namespace stoker
