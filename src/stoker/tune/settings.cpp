#include "stoker/tune/settings.h"

#include <algorithm>
#include <cmath>

namespace stoker {
namespace {

// 1, 2, 3, 4, 6, 9, 13, ... and `most`.
std::vector<int> strides(int most) {
    std::vector<int> counts;
    for (int count = 1; count < most; count += std::max(1, count / 2)) {
        counts.push_back(count);
    }
    counts.push_back(most);
    return counts;
}

}  // namespace

int most_workers(double cores) {
    return std::max(2 * static_cast<int>(std::floor(cores)), 4);
}

std::vector<Setting> settings_to_try(const Costs& costs, bool on_device) {
    const int cores = std::max(static_cast<int>(std::floor(costs.cores)), 1);
    std::vector<int> workers = strides(most_workers(costs.cores));
    workers.insert(workers.begin(), 0);
    const std::vector<int> threads = on_device ? std::vector<int>{costs.step.back().threads} : strides(cores);
    std::vector<Setting> settings;
    for (const int w : workers) {
        for (const int t : threads) {
            settings.push_back({.workers = w, .threads = t});
        }
    }
    return settings;
}

}  // namespace stoker
