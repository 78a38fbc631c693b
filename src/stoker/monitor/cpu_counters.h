// Counters of the processors: their times, the load, pressure (PSI), and how often a cgroup's quota stopped us.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stoker {

// Times of a processor since the machine started, in ticks of 1/100 s. `user` includes nice, `system` the interrupts.
struct CpuTimes {
    std::int64_t user = 0;
    std::int64_t system = 0;
    std::int64_t idle = 0;
    std::int64_t iowait = 0;  // idle while a thread that ran here waits for a disk
    std::int64_t steal = 0;   // taken by the hypervisor for other machines

    std::int64_t total() const { return user + system + idle + iowait + steal; }
    CpuTimes& operator+=(const CpuTimes& other);
};

struct CoreTimes {
    int core = 0;  // the kernel's number
    CpuTimes times = {};
};

// The lines "cpu0 ..." of /proc/stat. Cores that are off have none.
std::vector<CoreTimes> parse_cpu_times(std::string_view stat);

// Shares of a time span, each in [0, 1].
struct CpuShares {
    double user = 0;
    double system = 0;
    double iowait = 0;
    double steal = 0;

    double busy() const { return user + system; }
};

// Empty if no time passed between the readings. iowait may fall in the kernel's counters; its share is then 0.
std::optional<CpuShares> cpu_shares(const CpuTimes& before, const CpuTimes& after);

// /proc/loadavg: threads that run or wait for a core or a disk, as means over 1, 5 and 15 minutes.
struct LoadAverage {
    double one = 0;
    double five = 0;
    double fifteen = 0;
};
std::optional<LoadAverage> parse_load(std::string_view loadavg);

// /proc/pressure/*: the share of time in which some, or all, threads waited for the resource.
struct Pressure {
    double some_10s = 0;  // in [0, 1], over the last ten seconds
    std::int64_t some_us = 0;
    std::optional<double> full_10s = {};  // absent for the CPU in older kernels
    std::optional<std::int64_t> full_us = {};
};
std::optional<Pressure> parse_pressure(std::string_view text);

// The quota's periods (usually of 0.1 s) and those in which the group used it up and was stopped.
struct Throttling {
    std::int64_t periods = 0;
    std::int64_t throttled_periods = 0;
    std::int64_t throttled_us = 0;  // summed over the cores
};

// cpu.stat of cgroup v1 or v2; empty without a quota.
std::optional<Throttling> parse_throttling(std::string_view cpu_stat);

struct GroupThrottling {
    std::string group;  // its folder
    Throttling counts = {};
};

// This process's group and its parents, those with a quota: each of them stops it. `root` replaces "/" in tests.
std::vector<GroupThrottling> read_throttling(const std::string& root = "");

// The share of periods in which a group was stopped, of the group that was stopped most; empty if no period ended in
// between.
std::optional<double> throttled_share(const std::vector<GroupThrottling>& before,
                                      const std::vector<GroupThrottling>& after);

}  // namespace stoker
