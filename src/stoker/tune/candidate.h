// The candidates that the search may try next, and which of them comes first.
#pragma once

#include <functional>
#include <vector>

#include "stoker/diagnose/prediction.h"
#include "stoker/tune/variants.h"

namespace stoker {

constexpr double kWorthTrying = 1.02;  // a predicted factor below this promises nothing

struct Candidate {
    std::vector<RecipeChange> change;
    Setting setting;
    Variant* variant = nullptr;  // null: another number of workers or threads
    double predicted = 1;        // factor; of a variant without costs the most that it can bring

    bool packs() const { return variant != nullptr && !variant->pack_codec.empty(); }
    // Whether the prediction rests on measured costs.
    bool known() const { return variant == nullptr || variant->queue || variant->costs.has_value(); }
};

// The workers and threads with which these costs train fastest; `current` where others bring little more. `correction`:
// how much of the predicted gain others have brought so far.
Setting fastest_setting(const Costs& costs, const Setting& current, double correction);

// The best of those that pass; null without one. Between equal ones the first, which takes fewer workers and threads.
const Candidate* best_of(const std::vector<Candidate>& all, const std::function<bool(const Candidate&)>& passes);

// The candidates that the search would try: those predicted to gain `worth` or more, of the settings only the best.
std::vector<Candidate> promising(const std::vector<Candidate>& all, double worth);

// Among settings that may be as good as `current`, the one that uses each core once: no prediction includes the cost of
// threads sharing a core. If the step runs on the CPU, none that leaves more cores idle or shared than `current`.
const Candidate* neighbour_of(const Setting& current, const std::vector<Candidate>& all, double cores, bool on_device);

}  // namespace stoker
