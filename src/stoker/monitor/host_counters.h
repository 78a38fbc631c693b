// This process's use of the host and its waits for it, as counters that are cheap enough for a training loop: two
// readings give the rates in between.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "stoker/monitor/cpu_counters.h"

namespace stoker {

// Absent: the system does not report it. All counters but `rss_bytes` only grow.
struct HostCounters {
    std::int64_t time_ns = 0;  // of a steady clock
    // This process, with all its threads.
    double user_seconds = 0;
    double system_seconds = 0;
    std::int64_t major_faults = 0;                // page faults that a disk had to answer
    std::optional<std::int64_t> read_bytes = {};  // from disks: reads that the page cache answered are not counted
    std::optional<std::int64_t> rss_bytes = {};   // resident memory now
    // The cores that this process may run on, and everything that runs there.
    std::optional<CpuTimes> cores = {};
    std::vector<GroupThrottling> throttling = {};    // empty without a quota
    std::optional<std::int64_t> swap_in_bytes = {};  // of the whole machine
};

// Reads five small files; `root` replaces "/" in tests. Thread-safe.
HostCounters read_host_counters(const std::string& root = "");

// Nanoseconds in which the calling thread was ready to run and had no core; empty if the kernel does not count them.
std::optional<std::int64_t> thread_core_wait_ns(const std::string& root = "");

// The means between two readings. Shares are in [0, 1].
struct HostRates {
    double seconds = 0;
    double user_cores = 0;                       // cores that this process kept busy in user mode
    double system_cores = 0;                     // and in the kernel
    double major_faults = 0;                     // a second
    std::optional<double> read_bytes = {};       // a second
    std::optional<std::int64_t> rss_bytes = {};  // at the end
    std::optional<double> busy = {};             // share of the cores' time in which anything ran
    std::optional<double> iowait = {};           // share of the cores' time
    std::optional<double> steal = {};            // share of the cores' time
    std::optional<double> throttled = {};        // share of the quota's periods; absent without a quota
    std::optional<double> swap_in_bytes = {};    // a second
};

// `after` must be the later reading; with no time in between all rates are 0 or absent.
HostRates rates(const HostCounters& before, const HostCounters& after);

}  // namespace stoker
