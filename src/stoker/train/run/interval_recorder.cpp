#include "stoker/train/run/interval_recorder.h"

#include <cstdint>
#include <fmt/format.h>
#include <utility>

namespace stoker {
namespace {

// Shorter intervals would spend a visible share of their time on reading counters, and the host's tick is 10 ms.
constexpr std::chrono::milliseconds kShortest{250};

void set_counters(IntervalEntry& entry, const HostCounters& before, const HostCounters& after) {
    const HostRates mean = rates(before, after);
    entry.seconds = mean.seconds;
    entry.user_seconds = after.user_seconds - before.user_seconds;
    entry.system_seconds = after.system_seconds - before.system_seconds;
    entry.major_faults = after.major_faults - before.major_faults;
    entry.rss_bytes = mean.rss_bytes;
    if (before.read_bytes && after.read_bytes) {
        entry.read_bytes = *after.read_bytes - *before.read_bytes;
    }
    entry.busy_share = mean.busy;
    entry.iowait_share = mean.iowait;
    entry.steal_share = mean.steal;
    entry.throttled_share = mean.throttled;
    entry.swap_in_bytes_per_second = mean.swap_in_bytes;
}

void set_device(IntervalEntry& entry, const DeviceReading& reading) {
    entry.device_bytes = reading.peak_bytes;
    if (!reading.clocks) {
        return;
    }
    const GpuCounters& gpu = *reading.clocks;
    if (gpu.celsius) {
        entry.gpu_celsius = static_cast<int>(*gpu.celsius);
    }
    if (gpu.sm_mhz && gpu.sm_max_mhz.value_or(0) > 0) {
        entry.gpu_clock_share = static_cast<double>(*gpu.sm_mhz) / static_cast<double>(*gpu.sm_max_mhz);
    }
    if (const std::uint64_t reasons = throttling_reasons(gpu.clock_reasons.value_or(0)); reasons != 0) {
        entry.gpu_clock_limit = fmt::format("{}", fmt::join(clock_reason_names(reasons), ", "));
    }
}

}  // namespace

// Short epochs with an evaluation after each read no counters: two readings would be a visible share of them.
void IntervalRecorder::begin() {
    if (entry_.first_step != 0) {
        return;
    }
    entry_ = {};
    workers_ = loader_.stats().workers;
    core_wait_ = thread_core_wait_ns();
    start_.reset();
    if (!short_) {
        start_ = read_host_counters();
    }
    short_ = true;
}

std::optional<IntervalEntry> IntervalRecorder::add(std::span<const StepResult> steps, std::chrono::nanoseconds sync,
                                                   bool last) {
    for (const StepResult& step : steps) {
        entry_.first_step = entry_.first_step == 0 ? step.step : entry_.first_step;
        entry_.last_step = step.step;
        for (std::size_t i = 0; i < kPhases; ++i) {
            entry_.host.times[i] += step.record.times[i];
        }
    }
    if (!steps.empty()) {
        const double us = static_cast<double>(sync.count()) / 1000;
        entry_.syncs.resize(1, {.place = "losses"});
        ++entry_.syncs[0].count;
        entry_.syncs[0].us += us;
        if (last || steps.back().step % loader_.batches_per_epoch() == 0) {
            entry_.after_us = entry_.after_us.value_or(0) + us;
        }
    }
    const bool is_short = entry_.host.total() < kShortest;
    if (entry_.first_step == 0 || (!last && is_short)) {
        return std::nullopt;
    }
    IntervalEntry done = std::exchange(entry_, {});
    done.seconds = std::chrono::duration<double>(done.host.total()).count();
    set_device(done, read_device_());
    const StageTimes workers = loader_.stats().workers;
    done.workers.emplace(workers);
    *done.workers -= workers_;
    workers_ = workers;
    const std::optional<std::int64_t> core_wait = thread_core_wait_ns();
    if (core_wait_ && core_wait) {
        done.core_wait_us = static_cast<double>(*core_wait - *core_wait_) / 1000;
    }
    core_wait_ = core_wait;
    if (!is_short) {
        const HostCounters now = read_host_counters();
        if (start_) {
            set_counters(done, *start_, now);
        }
        start_ = now;
        short_ = false;
    }
    done.workers->limit_blocked(loader_.workers() * std::chrono::duration<double>(done.seconds));
    return done;
}

}  // namespace stoker
