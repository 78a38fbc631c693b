#include "stoker/monitor/cpu_counters.h"

#include <algorithm>

#include "stoker/base/cgroup.h"
#include "stoker/monitor/counter_text.h"

namespace stoker {
namespace {

// " 12 0 3 ...": user nice system idle iowait irq softirq steal (guest times are part of user and nice). Old kernels
// write fewer numbers.
CpuTimes parse_times(std::string_view numbers) {
    std::int64_t values[8] = {};
    for (std::int64_t& value : values) {
        value = take_count(numbers).value_or(0);
    }
    const auto [user, nice, system, idle, iowait, irq, softirq, steal] = values;
    return {.user = user + nice, .system = system + irq + softirq, .idle = idle, .iowait = iowait, .steal = steal};
}

// The number after `key` in "some avg10=1.25 avg60=0.90 avg300=0.30 total=1234".
std::optional<double> pressure_value(std::string_view line, std::string_view key) {
    for (std::string_view word = take_word(line); !word.empty(); word = take_word(line)) {
        if (word.starts_with(key)) {
            word.remove_prefix(key.size());
            const auto value = take_decimal(word);
            return value && *value <= static_cast<double>(kMostCounted) ? value : std::nullopt;
        }
    }
    return std::nullopt;
}

std::vector<GroupThrottling> throttling_of(const std::vector<std::string>& folders) {
    std::vector<GroupThrottling> groups;
    for (const std::string& folder : folders) {
        const auto text = read_counter_file(folder + "/cpu.stat");
        if (const auto counts = text ? parse_throttling(*text) : std::nullopt) {
            groups.push_back({.group = folder, .counts = *counts});
        }
    }
    return groups;
}

// Empty if no period ended in between.
std::optional<double> share_of(const Throttling& before, const Throttling& after) {
    if (after.periods <= before.periods || after.throttled_periods < before.throttled_periods) {
        return std::nullopt;
    }
    return static_cast<double>(after.throttled_periods - before.throttled_periods) /
           static_cast<double>(after.periods - before.periods);
}

}  // namespace

CpuTimes& CpuTimes::operator+=(const CpuTimes& other) {
    user += other.user;
    system += other.system;
    idle += other.idle;
    iowait += other.iowait;
    steal += other.steal;
    return *this;
}

// The lines of the cores come first. The line "intr" after them is long on large machines and is not looked at.
std::vector<CoreTimes> parse_cpu_times(std::string_view stat) {
    std::vector<CoreTimes> cores;
    while (stat.starts_with("cpu")) {
        std::string_view line = take_line(stat);
        const auto core = parse_number<int>(take_word(line).substr(3));  // none in the first line, the sum
        if (core && *core >= 0) {
            cores.push_back({.core = *core, .times = parse_times(line)});
        }
    }
    return cores;
}

std::optional<CpuShares> cpu_shares(const CpuTimes& before, const CpuTimes& after) {
    const auto passed = [](std::int64_t from, std::int64_t to) {
        return static_cast<double>(std::max(to - from, std::int64_t{0}));
    };
    const CpuShares ticks = {.user = passed(before.user, after.user),
                             .system = passed(before.system, after.system),
                             .iowait = passed(before.iowait, after.iowait),
                             .steal = passed(before.steal, after.steal)};
    const double total = ticks.busy() + ticks.iowait + ticks.steal + passed(before.idle, after.idle);
    if (total <= 0) {
        return std::nullopt;
    }
    return CpuShares{.user = ticks.user / total,
                     .system = ticks.system / total,
                     .iowait = ticks.iowait / total,
                     .steal = ticks.steal / total};
}

std::optional<LoadAverage> parse_load(std::string_view loadavg) {
    const auto one = take_decimal(loadavg);
    const auto five = take_decimal(loadavg);
    const auto fifteen = take_decimal(loadavg);
    return one && five && fifteen ? std::optional(LoadAverage{*one, *five, *fifteen}) : std::nullopt;
}

std::optional<Pressure> parse_pressure(std::string_view text) {
    std::optional<Pressure> pressure;
    std::string_view full;
    for_each_line(text, [&](std::string_view line) {
        const auto average = pressure_value(line, "avg10=");
        const auto total = pressure_value(line, "total=");
        if (line.starts_with("some ") && average && total) {
            pressure = Pressure{.some_10s = *average / 100, .some_us = static_cast<std::int64_t>(*total)};
        } else if (line.starts_with("full ")) {
            full = line;
        }
    });
    if (pressure && pressure_value(full, "avg10=") && pressure_value(full, "total=")) {
        pressure->full_10s = *pressure_value(full, "avg10=") / 100;
        pressure->full_us = static_cast<std::int64_t>(*pressure_value(full, "total="));
    }
    return pressure;
}

std::optional<Throttling> parse_throttling(std::string_view cpu_stat) {
    const auto periods = named_number(cpu_stat, "nr_periods");
    const auto throttled = named_number(cpu_stat, "nr_throttled");
    auto us = named_number(cpu_stat, "throttled_usec");
    if (const auto ns = named_number(cpu_stat, "throttled_time"); !us && ns) {  // v1
        us = *ns / 1000;
    }
    if (!periods || !throttled || !us || *periods <= 0 || *throttled < 0 || *us < 0) {
        return std::nullopt;
    }
    return Throttling{.periods = *periods, .throttled_periods = *throttled, .throttled_us = *us};
}

std::vector<GroupThrottling> read_throttling(const std::string& root) {
    const std::string mount = root + "/sys/fs/cgroup";
    const std::string listing = root + "/proc/self/cgroup";
    auto unified = throttling_of(cgroup_folders(mount, "", listing));
    return !unified.empty() ? unified : throttling_of(cgroup_folders(mount + "/cpu", "cpu", listing));
}

std::optional<double> throttled_share(const std::vector<GroupThrottling>& before,
                                      const std::vector<GroupThrottling>& after) {
    std::optional<double> most;
    for (const GroupThrottling& now : after) {
        const auto found = std::ranges::find(before, now.group, &GroupThrottling::group);
        const auto share = found != before.end() ? share_of(found->counts, now.counts) : std::nullopt;
        most = share ? std::max(most.value_or(0), *share) : most;
    }
    return most;
}

}  // namespace stoker
