// Predicts the rate of training from costs that are measured one by one: the step on a held batch, the loader alone,
// reading alone. On a GPU they overlap, so the slowest one decides (DS-Analyzer). On a CPU they share the cores, so the
// CPU time of a sample bounds the rate as well (Plumber).
#pragma once

#include <vector>

namespace stoker {

// The training step of a batch that is already there. Seconds are of one sample.
struct StepCost {
    int threads = 1;  // LibTorch's
    double seconds = 0;
    double cpu_seconds = 0;
};

// The loader without a step. Seconds are of one sample.
struct LoadCost {
    int workers = 1;  // 0: the caller's thread
    double seconds = 0;
    double cpu_seconds = 0;
};

// Samples a second that storage delivers to so many threads.
struct FetchRate {
    int threads = 1;
    double rate = 0;
};

struct Costs {
    double cores = 1;        // that the process may use
    bool on_device = false;  // the step runs on a GPU and needs no cores
    // At least one of each, ascending by threads and by workers. With a second entry, for as many as there are cores,
    // the prediction knows how threads scale and what sharing the cores costs.
    std::vector<StepCost> step = {};
    std::vector<LoadCost> load = {};
    std::vector<FetchRate> fetch = {};  // ascending by threads; empty: the data are in memory
};

struct Setting {
    int workers = 1;
    int threads = 1;
    bool operator==(const Setting&) const = default;
};

// Samples a second of the step alone with so many threads, and of the loader alone with so many workers.
double step_rate(const Costs& costs, int threads);
double load_rate(const Costs& costs, int workers);
// Samples a second that storage delivers to so many workers; without a limit where the data are in memory.
double fetch_rate(const Costs& costs, int workers);

// CPU seconds of a sample's step with so many threads.
double step_cpu_seconds(const Costs& costs, int threads);

// Samples a second of training.
double predict_rate(const Costs& costs, const Setting& setting);

// The factor of throughput of a change. Time outside the costs, such as reading losses, mostly cancels out.
double predict_gain(const Costs& before, const Setting& setting_before, const Costs& after,
                    const Setting& setting_after);

}  // namespace stoker
