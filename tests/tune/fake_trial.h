// A made-up machine and its trials, for tests of the search: the costs of a sample, failures, and the capacity of
// memory.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "stoker/recipe/recipe.h"
#include "stoker/tune/trial.h"

namespace stoker {

// A machine with two cores. A sample costs the loader `load` and the step `step` seconds of CPU, or of a GPU.
struct Machine {
    int cores = 2;
    bool gpu = false;
    double most_rate = 1e12;   // of training, whatever the costs are
    double training_load = 1;  // CPU seconds of the loader while a step runs, as a factor
    double fetch = 1e12;       // samples a second that storage delivers to one thread
    std::int64_t data_bytes = 1'000;
    std::int64_t sample_bytes = 1;                     // in the cache
    std::int64_t cache_bytes = std::int64_t{4} << 30;  // if no trial sets them
    std::string codec = {};                            // of packed data
    double load = 0.010;
    double step = 0.004;
    double cached_load = 0.001;
    double channels_last_step = 0.008;
    double noise = 0.01;
    int slow_workers = -1;    // so many workers train at half the recipe's rate
    double beside = 1;        // factor of the rate with workers that decode during the step
    bool step_scales = true;  // with threads
    double crowded = 1;       // factor of the rate with more workers and threads than cores
    double short_queue = 1;   // factor of the rate with workers and without data.prefetch
    std::string fails = {};   // a --set that a trial refuses
    int stops_after = 1000;   // trials
    int holds = 1000;         // trials at once
    int open = 0;
    int most_threads = 1000;  // of a loader
    int most_beside = 1000;   // of a loader during another trial: memory
    int fails_at = -1;        // this measurement, once
    int disturbed_at = -1;    // this one is ten times as slow
    std::vector<TrialSpec> opened = {};
    int measured = 0;
};

class FakeTrial final : public Trial {
  public:
    FakeTrial(Machine& machine, const TrialSpec& spec) : machine_(machine) {
        if (machine.open == machine.holds) {
            throw TrialOutOfMemory("no memory");
        }
        ++machine.open;
        for (const std::string& set : spec.sets) {
            values_[set.substr(0, set.find('='))] = set.substr(set.find('=') + 1);
        }
        facts_ = {.device = machine.gpu ? "cuda:0" : "cpu",
                  .samples = 5000,
                  .trial_samples = 1000,
                  .data_bytes = machine.data_bytes,
                  .workers = number("data.workers", 0),
                  .threads = number("train.threads", machine.cores),
                  .cores = static_cast<double>(machine.cores),
                  .format = machine.codec.empty() ? "image_folder" : "stk",
                  .codec = machine.codec,
                  .memory_left = 1e10};
    }

    ~FakeTrial() override { --machine_.open; }
    FakeTrial(const FakeTrial&) = delete;
    FakeTrial& operator=(const FakeTrial&) = delete;

    const TrialFacts& facts() const override { return facts_; }

    Measurement ask(const std::string& request, double seconds, int count) override {
        const bool too_many = (request == "load" || request == "fetch") && count > machine_.most_threads;
        if (request == "load" && count > machine_.most_beside && machine_.open > 1) {
            ended_ = true;
            throw TrialOutOfMemory("no memory");
        }
        ended_ = ended_ || too_many || machine_.measured + 1 == machine_.fails_at;
        machine_.measured += ended_ ? 1 : 0;
        if (ended_) {
            throw TrialFailed("ended");
        }
        const bool cached = values_.contains("data.cache") && values_["data.cache"] != "\"none\"";
        const double load = cached ? machine_.cached_load : machine_.load;
        const double step = values_["train.channels_last"] == "false" ? machine_.channels_last_step : machine_.step;
        double rate = 0;
        double cpu = machine_.training_load * load + step;
        if (request == "step") {
            rate = (machine_.gpu || !machine_.step_scales ? 1 : count) / step;
            cpu = machine_.gpu ? 0 : step;
        } else if (request == "fetch") {
            rate = count * machine_.fetch;
        } else if (request == "load") {
            rate = std::max(count, 1) / load;
            cpu = load;
        } else {
            const int workers = facts_.workers;
            const double loads = cached ? 1 / load : std::min(1 / load, machine_.fetch);  // of one worker
            const int threads = machine_.step_scales ? facts_.threads : 1;
            const double most_loads = std::min(workers * loads, machine_.cores / load);
            if (workers == 0) {
                rate = 1 / (1 / loads + step / threads);
            } else if (machine_.gpu) {
                rate = std::min(most_loads, 1 / step);
            } else {
                rate = std::min({most_loads, threads / step, machine_.cores / (load + step)});
            }
            rate = std::min(rate, machine_.most_rate);
            rate = workers == machine_.slow_workers ? 0.5 / load : rate;
        }
        if (request == "measure" && facts_.workers + facts_.threads > machine_.cores) {
            rate *= machine_.crowded;
        }
        if (request == "measure" && facts_.workers > 0 && !cached) {
            rate *= machine_.beside;
        }
        double wait_share = 0;
        if (request == "measure" && facts_.workers > 0 && !values_.contains("data.prefetch")) {
            rate *= machine_.short_queue;
            wait_share = 1 - machine_.short_queue;
        }
        ++machine_.measured;
        rate *= 1 + machine_.noise * std::sin(7.0 * machine_.measured);
        rate *= machine_.measured == machine_.disturbed_at ? 0.1 : 1;
        StepRecord host;
        host.times[static_cast<std::size_t>(Phase::wait)] =
            std::chrono::nanoseconds(static_cast<std::int64_t>(1e12 * wait_share * seconds));
        return {.images = static_cast<std::int64_t>(1000 * rate * seconds),
                .steps = 100,
                .seconds = 1000 * seconds,
                .cpu_seconds = cpu * 1000 * rate * seconds,
                .host = host,
                .cached_bytes = std::min<std::int64_t>(machine_.sample_bytes * facts_.trial_samples, cache_bytes())};
    }

  private:
    // The budget; only the units "MiB" and "GiB" are known here.
    std::int64_t cache_bytes() const {
        const auto found = values_.find("data.cache_bytes");
        if (found == values_.end()) {
            return machine_.cache_bytes;
        }
        const std::int64_t count = std::stoll(found->second.substr(1));
        return count << (found->second.find("GiB") == std::string::npos ? 20 : 30);
    }

    int number(const std::string& key, int otherwise) const {
        const auto found = values_.find(key);
        return found == values_.end() ? otherwise : std::stoi(found->second);
    }

    Machine& machine_;
    bool ended_ = false;
    std::map<std::string, std::string> values_;
    TrialFacts facts_;
};

inline OpenTrial opener(Machine& machine) {
    return [&machine](const TrialSpec& spec) -> std::unique_ptr<Trial> {
        machine.opened.push_back(spec);
        if (static_cast<int>(machine.opened.size()) > machine.stops_after) {
            throw TrialStopped();
        }
        for (const std::string& set : spec.sets) {
            if (!machine.fails.empty() && set == machine.fails) {
                throw TrialFailed("no memory");
            }
        }
        return std::make_unique<FakeTrial>(machine, spec);
    };
}

inline Recipe photos() {
    return parse_recipe("[data]\ntrain = \"photos\"\nworkers = 0\n[model]\nname = \"resnet18\"\n", "photos.toml");
}

}  // namespace stoker
