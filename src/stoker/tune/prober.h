// Measures what the prediction needs: the costs of a recipe's step and loader, one by one.
#pragma once

#include <atomic>
#include <cstdint>

#include "stoker/tune/trial.h"
#include "stoker/tune/variants.h"

namespace stoker {

struct ProbeOptions {
    double seconds = 0.7;      // of each measurement
    std::int64_t samples = 0;  // at most so many; 0: all
    bool alone = true;         // no other trial is open, whose end would free memory
};

struct ProbeResult {
    Costs costs = {};
    double cached_bytes = 0;  // of a sample, if the recipe has a cache
};

// Step costs with one thread and with `facts.threads` or all cores; load costs with one worker and with one for each
// core, as far as memory and threads suffice. `part` leaves the other costs out.
ProbeResult probe(const OpenTrial& open, const TrialSpec& spec, Part part, const ProbeOptions& options);

// What storage delivers of data that are not in the page cache, to one thread and to as many as there may be workers.
std::vector<FetchRate> probe_fetch(const OpenTrial& open, const TrialSpec& spec, const ProbeOptions& options);

}  // namespace stoker
