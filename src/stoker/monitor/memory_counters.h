// Counters of memory: the machine's, swap, pressure, and the limit that this process is under.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "stoker/monitor/cpu_counters.h"

namespace stoker {

// In bytes. The machine's, also in a container.
struct MemoryCounters {
    std::optional<std::int64_t> total = {};
    std::optional<std::int64_t> available = {};  // for new programs, without swapping
    std::optional<std::int64_t> page_cache = {};
    std::optional<std::int64_t> swap_total = {};
    std::optional<std::int64_t> swap_free = {};
    std::optional<std::int64_t> swapped_in = {};  // since the machine started
    std::optional<std::int64_t> swapped_out = {};
    std::optional<Pressure> pressure = {};
    // Those of this process's cgroup or one of its parents, whichever leaves least; absent without one.
    std::optional<std::int64_t> cgroup_limit = {};
    std::optional<std::int64_t> cgroup_available = {};
};

// Sets the machine's and the swap's sizes from /proc/meminfo.
void parse_meminfo(std::string_view meminfo, MemoryCounters& counters);

// Sets what was swapped from /proc/vmstat, which counts pages of `page_bytes`.
void parse_swapped(std::string_view vmstat, std::int64_t page_bytes, MemoryCounters& counters);

// `root` replaces "/" in tests.
MemoryCounters read_memory(const std::string& root = "");

}  // namespace stoker
