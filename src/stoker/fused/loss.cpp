// Label smoothing as torch defines it: the target is (1 - e) * one_hot + e / classes.
#include "stoker/fused/loss.h"

#include <cmath>

namespace stoker {
namespace {

void clear_rest(const LossPanel& panel) {
    for (int i = 0; i < panel.features; ++i) {
        for (int s = panel.samples; s < in_groups(panel.samples); ++s) {
            panel.grads[std::ptrdiff_t{i} * kPanel + s] = 0;
        }
    }
}

}  // namespace

void cross_entropy_panel(const FusedKernels& kernels, const LossPanel& panel, const std::int64_t* label,
                         double smoothing) {
    const double scale = 1.0 / static_cast<double>(panel.batch);
    const double share = smoothing / panel.features;
    SoftmaxSums sums;
    kernels.softmax(panel.outputs, panel.features, in_groups(panel.samples), static_cast<float>(scale),
                    static_cast<float>(scale * share), panel.grads, sums);
    const auto hit = static_cast<float>(scale * (1 - smoothing));
    for (int s = 0; s < panel.samples; ++s) {
        const std::ptrdiff_t at = label[s] * kPanel + s;
        panel.grads[at] -= hit;
        const double log_sum = std::log(static_cast<double>(sums.exps[s])) + sums.highest[s];
        panel.losses[s] = log_sum - (1 - smoothing) * panel.outputs[at] - share * sums.logits[s];
    }
    clear_rest(panel);
}

void mse_panel(const LossPanel& panel, const float* target) {
    const auto scale = static_cast<float>(2.0 / (static_cast<double>(panel.batch) * panel.features));
    for (int s = 0; s < panel.samples; ++s) {
        double sum = 0;
        for (int i = 0; i < panel.features; ++i) {
            const std::ptrdiff_t at = std::ptrdiff_t{i} * kPanel + s;
            const float difference = panel.outputs[at] - target[std::ptrdiff_t{s} * panel.features + i];
            panel.grads[at] = scale * difference;
            sum += static_cast<double>(difference) * difference;
        }
        panel.losses[s] = sum / panel.features;
    }
    clear_rest(panel);
}

}  // namespace stoker
