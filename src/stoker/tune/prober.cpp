#include "stoker/tune/prober.h"

#include <algorithm>
#include <cmath>
#include <optional>

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

// Nothing where the machine does not give several workers: their memory, or so many threads. One is needed.
std::optional<Measurement> ask_unless_too_many(Trial& trial, const char* request, const ProbeOptions& options,
                                               int workers) {
    try {
        return trial.ask(request, options.seconds, workers);
    } catch (const TrialOutOfMemory&) {
        if (workers == 1 || !options.alone) {
            throw;
        }
    } catch (const TrialFailed&) {
        if (workers == 1) {
            throw;
        }
    }
    return std::nullopt;
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
        for (const int threads : result.costs.on_device ? std::vector<int>{facts.threads} : counts) {
            const Measurement step = trial->ask("step", options.seconds, threads);
            result.costs.step.push_back({.threads = threads,
                                         .seconds = per_image(step.seconds, step),
                                         .cpu_seconds = per_image(step.cpu_seconds, step)});
        }
    }
    if (part != Part::step) {
        for (const int workers : counts) {
            const auto measured = ask_unless_too_many(*trial, "load", options, workers);
            if (!measured) {
                break;
            }
            const Measurement& load = *measured;
            result.costs.load.push_back({.workers = workers,
                                         .seconds = per_image(load.seconds, load),
                                         .cpu_seconds = per_image(load.cpu_seconds, load)});
            result.cached_bytes = static_cast<double>(load.cached_bytes) /
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
        const auto fetch = ask_unless_too_many(*trial, "fetch", options, threads);
        if (!fetch) {
            break;
        }
        rates.push_back({.threads = threads, .rate = fetch->rate()});
    }
    return rates;
}

}  // namespace stoker
