#include "stoker/tune/paired.h"

namespace stoker {
namespace {

// Three pairs decide where all of them lie on one side by this much.
constexpr int kFewPairs = 3;
constexpr double kLargeDifference = 0.08;

Decision decide_paired(const Estimate& ratio, std::size_t pairs, const PairedOptions& options) {
    if (pairs >= static_cast<std::size_t>(options.least)) {
        return decide(ratio, options.margin);
    }
    const bool large =
        ratio.low > 1 + options.margin + kLargeDifference || ratio.high < 1 + options.margin - kLargeDifference;
    return pairs >= kFewPairs && large ? decide(ratio, options.margin) : Decision::open;
}

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
        result.ratio = bootstrap_median(ratios);
        result.decision = decide_paired(result.ratio, ratios.size(), options);
    }
    return result;
}

}  // namespace stoker
