#include "stoker/tune/paired.h"

namespace stoker {
namespace {

// Pairs between two looks at the interval: each look is a chance to be wrong.
constexpr std::size_t kPairsBetweenLooks = 3;

}  // namespace

PairedResult compare_paired(const std::function<double()>& a, const std::function<double()>& b,
                            const PairedOptions& options, const std::function<bool()>& out_of_time) {
    PairedResult result;
    std::vector<double> ratios;
    while (result.decision == Decision::open && ratios.size() < static_cast<std::size_t>(options.most) &&
           (ratios.empty() || !out_of_time())) {
        const bool a_first = ratios.size() % 2 == 0;
        const double first = a_first ? a() : b();
        const double second = a_first ? b() : a();
        result.a.push_back(a_first ? first : second);
        result.b.push_back(a_first ? second : first);
        ratios.push_back(result.b.back() / result.a.back());
        result.ratio = median_interval(ratios);
        const auto least = static_cast<std::size_t>(options.least);
        if (ratios.size() >= least && (ratios.size() - least) % kPairsBetweenLooks == 0) {
            result.decision = decide(result.ratio, options.margin);
        }
        if (ratios.size() % kPairsBetweenLooks == 0 && result.ratio.median < options.worth) {
            break;
        }
    }
    return result;
}

}  // namespace stoker
