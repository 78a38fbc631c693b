#include "stoker/train/run/best_epoch.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "stoker/train/task/scores.h"

namespace stoker {

std::optional<BestBy> best_by(const Task& task, const std::string& name) {
    constexpr std::string_view kPrefix = "val_";
    const std::string metric = name.starts_with(kPrefix) ? name.substr(kPrefix.size()) : name;
    if (metric.empty() || metric == "loss") {
        return BestBy();
    }
    const std::vector<Metric> metrics = metrics_of(task);
    const auto found = std::ranges::find(metrics, metric, &Metric::name);
    return found == metrics.end() ? std::nullopt : std::optional(BestBy{metric, found->higher_is_better});
}

std::optional<double> best_value(const EpochResult& epoch, const BestBy& by) {
    std::optional<double> value = epoch.val_loss;
    if (!by.metric.empty()) {
        const auto found = std::ranges::find(epoch.val_metrics, by.metric, &Metric::name);
        value = found == epoch.val_metrics.end() ? std::nullopt : std::optional(found->value);
    }
    return value && std::isfinite(*value) ? value : std::nullopt;
}

const EpochResult* best_epoch(std::span<const EpochResult> epochs, const BestBy& by) {
    const EpochResult* best = nullptr;
    double best_so_far = 0;
    for (const EpochResult& epoch : epochs) {
        const std::optional<double> value = best_value(epoch, by);
        if (value && (best == nullptr || (by.higher_is_better ? *value > best_so_far : *value < best_so_far))) {
            best = &epoch;
            best_so_far = *value;
        }
    }
    return best;
}

bool stops_early(std::span<const EpochResult> epochs, const BestBy& by, std::int64_t patience) {
    const EpochResult* const best = best_epoch(epochs, by);
    const auto evaluated = [](const EpochResult& epoch) { return epoch.val_loss || !epoch.val_metrics.empty(); };
    if (patience == 0 || epochs.empty() || !evaluated(epochs.back())) {
        return false;
    }
    const auto without = std::ranges::count_if(epochs, [&](const EpochResult& epoch) {
        return evaluated(epoch) && (best == nullptr || epoch.epoch > best->epoch);
    });
    return without >= patience;
}

}  // namespace stoker
