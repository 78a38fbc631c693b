// The metric by which a run is judged: the accuracy of a classification, the first metric of another task.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "stoker/track/metrics_file.h"

namespace stoker {

struct MainMetric {
    std::string name;  // "accuracy", "mean_iou"
    double value = 0;  // NaN if it was not a number
    bool higher_is_better = true;

    bool better_than(const MainMetric& other) const {
        return higher_is_better ? value > other.value : value < other.value;
    }
};

// Empty where the epoch was not evaluated.
std::optional<MainMetric> main_metric(const EpochEntry& epoch);

// True for metrics from 0 to 1 that are shown in percent. One of the user's own is a number.
bool is_share(std::string_view metric);

}  // namespace stoker
