#include "stoker/diagnose/prediction.h"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace stoker {
namespace {

constexpr double kNoLimit = 1e12;  // samples a second

// Seconds of a sample as a + b / n, through two measurements with n1 < n2; with one, all of it scales.
double scaled(double seconds1, int n1, double seconds2, int n2, int n) {
    const double b = (seconds1 - seconds2) / (1.0 / n1 - 1.0 / n2);
    const double a = seconds1 - b / n1;
    return std::max(a + b / n, 1e-9);
}

double line(double x1, double y1, double x2, double y2, double x) {
    return y1 + (y2 - y1) * (x - x1) / (x2 - x1);
}

}  // namespace

double step_rate(const Costs& costs, int threads) {
    const StepCost& first = costs.step.front();
    const StepCost& last = costs.step.back();
    if (first.threads == last.threads) {
        return 1 / first.seconds;
    }
    return 1 / scaled(first.seconds, first.threads, last.seconds, last.threads, std::max(threads, 1));
}

double step_cpu_seconds(const Costs& costs, int threads) {
    const StepCost& first = costs.step.front();
    const StepCost& last = costs.step.back();
    if (first.threads == last.threads) {
        return first.cpu_seconds;
    }
    return std::max(line(first.threads, first.cpu_seconds, last.threads, last.cpu_seconds, threads), 0.0);
}

double load_rate(const Costs& costs, int workers) {
    const LoadCost& first = costs.load.front();
    const LoadCost& last = costs.load.back();
    const int n = std::max(workers, 1);
    const int first_n = std::max(first.workers, 1);
    const int last_n = std::max(last.workers, 1);
    if (n <= first_n || first_n == last_n) {
        const double cpu_bound = first.cpu_seconds > 0 ? costs.cores / first.cpu_seconds : kNoLimit;
        return std::min(n / (first_n * first.seconds), std::max(cpu_bound, 1 / first.seconds));
    }
    if (n <= last_n) {
        return line(first_n, 1 / first.seconds, last_n, 1 / last.seconds, n);
    }
    // Beyond: more workers help only while they wait for storage.
    const double cpu_bound = last.cpu_seconds > 0 ? costs.cores / last.cpu_seconds : kNoLimit;
    return std::max(1 / last.seconds, std::min(n / (last_n * last.seconds), cpu_bound));
}

double fetch_rate(const Costs& costs, int workers) {
    if (costs.fetch.empty()) {
        return kNoLimit;
    }
    const int n = std::max(workers, 1);
    const auto above = std::ranges::lower_bound(costs.fetch, n, {}, &FetchRate::threads);
    if (above == costs.fetch.end()) {
        return costs.fetch.back().rate;
    }
    if (above == costs.fetch.begin()) {
        return above->rate * n / above->threads;
    }
    const FetchRate& below = *std::prev(above);
    return line(below.threads, below.rate, above->threads, above->rate, n);
}

double predict_rate(const Costs& costs, const Setting& setting) {
    const double step = step_rate(costs, setting.threads);
    const double load = std::min(load_rate(costs, setting.workers), fetch_rate(costs, setting.workers));
    if (setting.workers == 0) {
        return 1 / (1 / step + 1 / load);
    }
    if (costs.on_device) {
        return std::min(step, load);
    }
    const double cpu = costs.load.back().cpu_seconds + step_cpu_seconds(costs, setting.threads);
    return std::min({step, load, costs.cores / cpu});
}

double predict_gain(const Costs& before, const Setting& setting_before, const Costs& after,
                    const Setting& setting_after) {
    return predict_rate(after, setting_after) / predict_rate(before, setting_before);
}

}  // namespace stoker
