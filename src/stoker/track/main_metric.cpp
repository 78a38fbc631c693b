#include "stoker/track/main_metric.h"

#include <algorithm>
#include <iterator>

namespace stoker {

std::optional<Metric> main_metric(const EpochResult& epoch) {
    if (epoch.val_accuracy) {
        return Metric{"accuracy", *epoch.val_accuracy};
    }
    return epoch.val_metrics.empty() ? std::nullopt : std::optional(epoch.val_metrics.front());
}

bool is_share(std::string_view metric) {
    constexpr std::string_view kShares[] = {"accuracy",       "top5_accuracy",  "map",     "f1_micro", "f1_macro",
                                            "pixel_accuracy", "token_accuracy", "mean_iou"};
    return std::ranges::find(kShares, metric) != std::end(kShares);
}

}  // namespace stoker
