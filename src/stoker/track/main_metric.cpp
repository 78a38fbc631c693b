#include "stoker/track/main_metric.h"

#include <algorithm>
#include <iterator>

namespace stoker {

std::optional<MainMetric> main_metric(const EpochEntry& epoch) {
    if (epoch.val_accuracy) {
        return MainMetric{"accuracy", *epoch.val_accuracy};
    }
    const auto found = std::ranges::find(epoch.val_metrics, epoch.val_metric, &MetricEntry::name);
    if (found == epoch.val_metrics.end()) {
        return std::nullopt;
    }
    return MainMetric{epoch.val_metric, found->value, epoch.higher_is_better.value_or(true)};
}

bool is_share(std::string_view metric) {
    constexpr std::string_view kShares[] = {"accuracy",       "top5_accuracy",  "map",     "f1_micro", "f1_macro",
                                            "pixel_accuracy", "token_accuracy", "mean_iou"};
    return std::ranges::find(kShares, metric) != std::end(kShares);
}

}  // namespace stoker
