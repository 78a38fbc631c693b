#include "stoker/monitor/memory_counters.h"

#include <unistd.h>

#include "stoker/base/memory_limit.h"
#include "stoker/monitor/counter_text.h"

namespace stoker {

void parse_meminfo(std::string_view meminfo, MemoryCounters& counters) {
    const auto bytes = [&](std::string_view name) { return bytes_of(named_number(meminfo, name), 1024); };
    counters.total = bytes("MemTotal:");
    counters.available = bytes("MemAvailable:");
    counters.page_cache = bytes("Cached:");
    counters.swap_total = bytes("SwapTotal:");
    counters.swap_free = bytes("SwapFree:");
}

void parse_swapped(std::string_view vmstat, std::int64_t page_bytes, MemoryCounters& counters) {
    counters.swapped_in = bytes_of(named_number(vmstat, "pswpin"), page_bytes);
    counters.swapped_out = bytes_of(named_number(vmstat, "pswpout"), page_bytes);
}

MemoryCounters read_memory(const std::string& root) {
    MemoryCounters counters;
    if (const auto text = read_counter_file(root + "/proc/meminfo")) {
        parse_meminfo(*text, counters);
    }
    if (const auto text = read_counter_file(root + "/proc/vmstat")) {
        parse_swapped(*text, ::sysconf(_SC_PAGESIZE), counters);
    }
    if (const auto text = read_counter_file(root + "/proc/pressure/memory")) {
        counters.pressure = parse_pressure(*text);
    }
    const MemoryLimit limit =
        cgroup_limit({.cgroups = root + "/sys/fs/cgroup", .own_cgroups = root + "/proc/self/cgroup"});
    const auto most = static_cast<std::int64_t>(limit.total);
    if (most > 0 && most < counters.total.value_or(most + 1)) {  // one above the machine's memory limits nothing
        counters.cgroup_limit = most;
        counters.cgroup_available = static_cast<std::int64_t>(limit.available);
    }
    return counters;
}

}  // namespace stoker
