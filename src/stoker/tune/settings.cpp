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

std::int64_t samples_of_pass(const Costs& costs, std::int64_t batch_size) {
    constexpr double kSeconds = 2;
    constexpr double kLongSeconds = 15;
    constexpr std::int64_t kBatches = 50;
    constexpr std::int64_t kLeastBatches = 8;
    const int cores = static_cast<int>(costs.cores);
    const double rate = predict_rate(costs, {.workers = cores, .threads = cores});
    const auto in = [rate](double seconds) { return static_cast<std::int64_t>(seconds * rate); };
    return std::max({in(kSeconds), std::min(in(kLongSeconds), kBatches * batch_size), kLeastBatches * batch_size});
}

}  // namespace stoker
