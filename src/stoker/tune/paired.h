// Compares two trials by measuring them in turns: what changes on the machine meanwhile changes both.
#pragma once

#include <functional>
#include <vector>

#include "stoker/base/statistics.h"

namespace stoker {

struct PairedOptions {
    double margin = 0.02;  // a gain below this does not count
    int least = 6;         // pairs; fewer have no interval of 95 %
    int most = 15;
    double worth = 0;  // after three pairs or more a comparison ends undecided if the median is below this
};

struct PairedResult {
    Estimate ratio = {};  // of b's rate to a's; no interval for fewer than six pairs
    Decision decision = Decision::open;
    std::vector<double> a = {};  // rates, pair by pair
    std::vector<double> b = {};
};

// Each call of `a` and `b` measures for a while and returns a rate. The order alternates: a b, b a, a b. Ends when the
// interval is decided or promises too little, after `most` pairs, or when `out_of_time` returns true, but not before
// the first pair.
PairedResult compare_paired(const std::function<double()>& a, const std::function<double()>& b,
                            const PairedOptions& options, const std::function<bool()>& out_of_time);

}  // namespace stoker
