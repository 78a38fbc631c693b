// Epochs have their own tag group, so TensorBoard shows training and validation loss side by side.
#include "stoker/track/scalars.h"

#include <cmath>
#include <limits>

namespace stoker {

std::vector<Scalar> scalars_of(const StepLine& step) {
    std::vector<Scalar> scalars;
    if (step.loss) {
        scalars.push_back({"train/loss", *step.loss});
    }
    if (std::isfinite(step.lr)) {
        scalars.push_back({"train/lr", step.lr});
    }
    if (step.seconds > 0) {
        if (step.samples > 0) {
            scalars.push_back({"train/images_per_second", static_cast<double>(step.samples) / step.seconds});
        }
        scalars.push_back({"train/wait", step.wait_seconds / step.seconds});
    }
    return scalars;
}

std::vector<Scalar> scalars_of(const EpochResult& epoch) {
    std::vector<Scalar> scalars = {{"epoch/train_loss", epoch.train_loss}};
    if (epoch.val_loss) {
        scalars.push_back({"epoch/val_loss", *epoch.val_loss});
    }
    if (epoch.val_accuracy) {
        scalars.push_back({"epoch/val_accuracy", *epoch.val_accuracy});
    }
    for (const Metric& metric : epoch.val_metrics) {
        if (!epoch.val_accuracy) {  // written above
            scalars.push_back({"epoch/val_" + metric.name, metric.value});
        }
    }
    scalars.push_back({"epoch/images_per_second", epoch.images_per_second});
    scalars.push_back({"epoch/seconds", epoch.seconds});
    return scalars;
}

std::filesystem::path export_events(const Metrics& metrics, const ExportOptions& options) {
    double left = 0;  // seconds to the end of the run
    for (const StepLine& step : metrics.steps) {
        left += std::isfinite(step.seconds) ? step.seconds : 0;
    }
    EventFile file({.folder = options.folder, .first_step = options.after + 1});
    const auto add = [&](std::int64_t step, const std::vector<Scalar>& scalars) {
        if (step > options.after) {
            file.add(step, options.end - left, scalars);
        }
    };
    auto epoch = metrics.epochs.begin();
    const auto add_epochs = [&](std::int64_t up_to) {
        for (; epoch != metrics.epochs.end() && epoch->step <= up_to; ++epoch) {
            add(epoch->step, scalars_of(*epoch));
        }
    };
    for (const StepLine& step : metrics.steps) {
        add_epochs(step.step - 1);
        left -= std::isfinite(step.seconds) ? step.seconds : 0;
        add(step.step, scalars_of(step));
    }
    left = 0;
    add_epochs(std::numeric_limits<std::int64_t>::max());
    file.flush();
    return file.path();
}

}  // namespace stoker
