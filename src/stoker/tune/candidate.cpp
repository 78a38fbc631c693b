#include "stoker/tune/candidate.h"

#include <cmath>
#include <utility>

#include "stoker/tune/settings.h"

namespace stoker {
namespace {

constexpr double kExplored = 0.7;  // neighbours are predicted to reach this at least
constexpr double kEqual = 1.01;    // predictions that differ by less are equal

// How far the threads of a setting are from one for each core.
double idle_or_shared_cores(const Setting& setting, double cores) {
    return std::abs(setting.workers + setting.threads - std::floor(cores));
}

}  // namespace

Setting fastest_setting(const Costs& costs, const Setting& current, double correction) {
    constexpr double kMuch = 1.1;  // two changes at a time are worth more than a few percent
    Setting fastest = current;
    double most = kMuch * predict_rate(costs, current);
    for (const Setting& each : settings_to_try(costs, costs.on_device)) {
        if (const double rate = correction * predict_rate(costs, each); rate > most) {
            most = kEqual * rate;
            fastest = each;
        }
    }
    return fastest;
}

const Candidate* best_of(const std::vector<Candidate>& all, const std::function<bool(const Candidate&)>& passes) {
    const Candidate* best = nullptr;
    for (const Candidate& candidate : all) {
        if (passes(candidate) && (best == nullptr || candidate.predicted > kEqual * best->predicted)) {
            best = &candidate;
        }
    }
    return best;
}

std::vector<Candidate> promising(const std::vector<Candidate>& all, double worth) {
    const Candidate* setting = best_of(all, [](const Candidate& each) { return each.variant == nullptr; });
    std::vector<Candidate> found;
    for (const Candidate& each : all) {
        if (each.predicted >= worth && (each.variant != nullptr || &each == setting)) {
            found.push_back(each);
        }
    }
    return found;
}

const Candidate* neighbour_of(const Setting& current, const std::vector<Candidate>& all, double cores, bool on_device) {
    const auto order = [cores](const Candidate& candidate) {
        return std::pair(idle_or_shared_cores(candidate.setting, cores), -candidate.predicted);
    };
    const double most = idle_or_shared_cores(current, cores);
    const Candidate* best = nullptr;
    for (const Candidate& each : all) {
        const bool may = on_device || idle_or_shared_cores(each.setting, cores) <= most;
        if (each.variant == nullptr && each.predicted >= kExplored && may &&
            (best == nullptr || order(each) < order(*best))) {
            best = &each;
        }
    }
    return best;
}

}  // namespace stoker
