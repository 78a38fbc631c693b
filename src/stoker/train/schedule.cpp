// Smith and Topin, "Super-Convergence", 2018, in the form that PyTorch gave it.
#include "stoker/train/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace stoker {
namespace {

double cosine(double from, double to, double share) {
    return to + (from - to) / 2 * (1 + std::cos(std::numbers::pi * share));
}

}  // namespace

double learning_rate(const ScheduleRecipe& schedule, double lr, std::int64_t step, std::int64_t total) {
    if (schedule.name != "one_cycle") {
        return lr;
    }
    const double start = lr / schedule.div_factor;
    const double peak = schedule.pct_start * static_cast<double>(total) - 1;
    const double last = static_cast<double>(total) - 1;
    const double at = static_cast<double>(std::min(step, total - 1));
    if (at <= peak) {
        return cosine(start, lr, peak > 0 ? at / peak : 1);
    }
    return cosine(lr, start / schedule.final_div_factor, last > peak ? (at - peak) / (last - peak) : 1);
}

}  // namespace stoker
