// Dynamic programming over (stages, blocks): the best partition of the first n blocks into k stages extends one of the
// first m < n blocks into k - 1 stages.
#include "stoker/dist/stage_partition.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace stoker {

std::vector<std::size_t> partition_stages(std::span<const double> costs, std::size_t stages) {
    const std::size_t blocks = costs.size();
    std::vector<double> before(blocks + 1, 0);  // the costs of the first n blocks together
    std::partial_sum(costs.begin(), costs.end(), before.begin() + 1);
    struct Part {
        double slowest = std::numeric_limits<double>::infinity();
        std::size_t first = 0;  // block of the last stage
    };
    std::vector<std::vector<Part>> best(stages + 1, std::vector<Part>(blocks + 1));
    best[0][0].slowest = 0;
    for (std::size_t k = 1; k <= stages; ++k) {
        for (std::size_t n = k; n <= blocks; ++n) {
            for (std::size_t first = k - 1; first < n; ++first) {
                const double slowest = std::max(best[k - 1][first].slowest, before[n] - before[first]);
                if (slowest < best[k][n].slowest) {
                    best[k][n] = {.slowest = slowest, .first = first};
                }
            }
        }
    }
    std::vector<std::size_t> firsts(stages);
    std::size_t end = blocks;
    for (std::size_t k = stages; k > 0; --k) {
        end = firsts[k - 1] = best[k][end].first;
    }
    return firsts;
}

std::vector<std::size_t> trained_runs(const std::vector<bool>& trained) {
    std::vector<std::size_t> firsts;
    std::size_t first = 0;
    for (std::size_t i = 0; i < trained.size(); ++i) {
        if (trained[i]) {
            firsts.push_back(first);
            first = i + 1;
        }
    }
    return firsts;
}

std::vector<std::size_t> partition_runs(std::span<const double> costs, std::span<const std::size_t> runs,
                                        std::size_t stages) {
    std::vector<std::size_t> firsts = partition_stages(stage_costs(costs, runs), stages);
    std::ranges::transform(firsts, firsts.begin(), [&](std::size_t run) { return runs[run]; });
    return firsts;
}

std::vector<double> stage_costs(std::span<const double> costs, std::span<const std::size_t> firsts) {
    std::vector<double> sums;
    for (std::size_t stage = 0; stage < firsts.size(); ++stage) {
        const std::size_t end = stage + 1 < firsts.size() ? firsts[stage + 1] : costs.size();
        sums.push_back(std::accumulate(costs.begin() + static_cast<std::ptrdiff_t>(firsts[stage]),
                                       costs.begin() + static_cast<std::ptrdiff_t>(end), 0.0));
    }
    return sums;
}

}  // namespace stoker
