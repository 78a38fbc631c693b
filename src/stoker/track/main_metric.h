// The metric by which a run is judged: the accuracy of a classification, the first metric of another task.
#pragma once

#include <optional>
#include <string_view>

#include "stoker/records/records.h"

namespace stoker {

// Empty where the epoch was not evaluated.
std::optional<Metric> main_metric(const EpochResult& epoch);

// True for metrics from 0 to 1 that are shown in percent. One of the user's own is a number.
bool is_share(std::string_view metric);

}  // namespace stoker
