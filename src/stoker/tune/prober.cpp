#include "stoker/tune/prober.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>

#include "stoker/tune/settings.h"

namespace stoker {
namespace {

// 1 and the number of cores.
std::vector<int> counts_up_to(double cores) {
    const int all = std::max(static_cast<int>(std::floor(cores)), 1);
    return all == 1 ? std::vector<int>{1} : std::vector<int>{1, all};
}

double per_image(double seconds, const Measurement& measured) {
    return seconds / static_cast<double>(std::max<std::int64_t>(measured.images, 1));
}

// Nothing if the machine does not give several workers or threads: their memory, or so many.
std::optional<Measurement> ask_unless_too_many(Trial& trial, const char* request, const ProbeOptions& options,
                                               int count, bool needed) {
    try {
        return trial.ask(request, options.seconds, count);
    } catch (const TrialOutOfMemory&) {
        if (needed || !options.alone) {
            throw;
        }
    } catch (const TrialFailed&) {
        if (needed) {
            throw;
        }
    }
    return std::nullopt;
}

// The median of a few measurements of each count, in turn with the others: a moment in which the machine is disturbed
// would mislead the whole search. A long one counts for itself. Counts of a loader that the machine does not give are
// left out; the first is needed.
std::vector<Measurement> measure_in_turn(Trial& trial, const char* request, const std::vector<int>& counts,
                                         const ProbeOptions& options) {
    const bool all_needed = std::string_view(request) == "step";
    constexpr double kShort = 1;  // second
    const int rounds = options.seconds <= kShort ? 3 : 1;
    std::vector<std::vector<Measurement>> rounds_of(counts.size());
    for (int round = 0; round < rounds; ++round) {
        for (std::size_t i = 0; i < rounds_of.size(); ++i) {
            const auto measured = ask_unless_too_many(trial, request, options, counts[i], all_needed || i == 0);
            if (!measured) {
                rounds_of.resize(i);
                break;
            }
            rounds_of[i].push_back(*measured);
        }
    }
    std::vector<Measurement> medians;
    for (std::vector<Measurement>& all : rounds_of) {
        std::ranges::sort(all, {}, &Measurement::rate);
        medians.push_back(all[all.size() / 2]);
    }
    return medians;
}

}  // namespace

ProbeResult probe(const OpenTrial& open, const TrialSpec& spec, Part part, const ProbeOptions& options) {
    TrialSpec probed = spec;
    probed.probe = true;
    probed.samples = options.samples;
    const std::unique_ptr<Trial> trial = open(probed);
    const TrialFacts& facts = trial->facts();
    ProbeResult result{.costs = {.cores = facts.cores, .on_device = facts.device != "cpu"}};
    const std::vector<int> counts = counts_up_to(facts.cores);
    if (part != Part::loader) {
        const std::vector<int> threads = result.costs.on_device ? std::vector<int>{facts.threads} : counts;
        const std::vector<Measurement> steps = measure_in_turn(*trial, "step", threads, options);
        for (std::size_t i = 0; i < steps.size(); ++i) {
            result.costs.step.push_back({.threads = threads[i],
                                         .seconds = per_image(steps[i].seconds, steps[i]),
                                         .cpu_seconds = per_image(steps[i].cpu_seconds, steps[i])});
        }
    }
    if (part != Part::step) {
        const std::vector<Measurement> loads = measure_in_turn(*trial, "load", counts, options);
        for (std::size_t i = 0; i < loads.size(); ++i) {
            result.costs.load.push_back({.workers = counts[i],
                                         .seconds = per_image(loads[i].seconds, loads[i]),
                                         .cpu_seconds = per_image(loads[i].cpu_seconds, loads[i])});
            result.cached_bytes = static_cast<double>(loads[i].cached_bytes) /
                                  static_cast<double>(std::max<std::int64_t>(facts.trial_samples, 1));
        }
    }
    return result;
}

std::vector<FetchRate> probe_fetch(const OpenTrial& open, const TrialSpec& spec, const ProbeOptions& options) {
    TrialSpec probed = spec;
    probed.probe = true;
    probed.samples = 0;
    const std::unique_ptr<Trial> trial = open(probed);
    std::vector<FetchRate> rates;
    for (const int threads : {1, most_workers(trial->facts().cores)}) {
        const auto fetch = ask_unless_too_many(*trial, "fetch", options, threads, threads == 1);
        if (!fetch) {
            break;
        }
        rates.push_back({.threads = threads, .rate = fetch->rate()});
    }
    return rates;
}

}  // namespace stoker
