// Epochs have a group of their own, so that TensorBoard draws the losses of both data sets side by side.
#include "stoker/track/scalars.h"

#include <cmath>
#include <limits>

namespace stoker {

std::vector<Scalar> scalars_of(const StepMetric& step) {
    std::vector<Scalar> scalars;
    if (step.loss) {
        scalars.push_back({"train/loss", *step.loss});
    }
    scalars.push_back({"train/lr", step.lr});
    if (step.seconds > 0) {
        scalars.push_back({"train/images_per_second", static_cast<double>(step.samples) / step.seconds});
        scalars.push_back({"train/wait", step.wait_seconds / step.seconds});
    }
    return scalars;
}

std::vector<Scalar> scalars_of(const EpochMetric& epoch) {
    std::vector<Scalar> scalars = {{"epoch/train_loss", epoch.train_loss}};
    if (epoch.val_loss) {
        scalars.push_back({"epoch/val_loss", *epoch.val_loss});
    }
    if (epoch.val_accuracy) {
        scalars.push_back({"epoch/val_accuracy", *epoch.val_accuracy});
    }
    scalars.push_back({"epoch/images_per_second", epoch.images_per_second});
    scalars.push_back({"epoch/seconds", epoch.seconds});
    return scalars;
}

std::filesystem::path export_events(const Metrics& metrics, const std::filesystem::path& folder, double end) {
    double left = 0;  // from here to the end of the run
    for (const StepMetric& step : metrics.steps) {
        left += std::isfinite(step.seconds) ? step.seconds : 0;
    }
    EventFile file({.folder = folder});
    auto epoch = metrics.epochs.begin();
    const auto epochs_up_to = [&](std::int64_t step) {
        for (; epoch != metrics.epochs.end() && epoch->step <= step; ++epoch) {
            file.add(epoch->step, end - left, scalars_of(*epoch));
        }
    };
    for (const StepMetric& step : metrics.steps) {
        epochs_up_to(step.step - 1);
        left -= std::isfinite(step.seconds) ? step.seconds : 0;
        file.add(step.step, end - left, scalars_of(step));
    }
    left = 0;
    epochs_up_to(std::numeric_limits<std::int64_t>::max());
    file.flush();
    return file.path();
}

}  // namespace stoker
