// Parses arbitrary text as each file of /proc and /sys that monitor/ reads, and checks that what is accepted can be
// compared and is in its range.
#include <span>
#include <string_view>

#include "fuzz/promise.h"
#include "stoker/monitor/cpu_counters.h"
#include "stoker/monitor/disk_counters.h"
#include "stoker/monitor/host_settings.h"
#include "stoker/monitor/library_search.h"
#include "stoker/monitor/memory_counters.h"
#include "stoker/monitor/network_counters.h"
#include "stoker/monitor/process_counters.h"
#include "stoker/monitor/storage.h"

namespace {

using namespace stoker;
using namespace stoker::fuzz;

void check_cpu(std::string_view text) {
    CpuTimes sum;
    for (const CoreTimes& core : parse_cpu_times(text)) {
        require(core.core >= 0 && core.times.total() >= 0);
        sum += core.times;
    }
    if (const auto shares = cpu_shares({}, sum)) {
        require(shares->busy() >= 0 && shares->busy() + shares->iowait + shares->steal <= 1 + 1e-9);
    }
    if (const auto throttling = parse_throttling(text)) {
        require(!throttled_share({{"", *throttling}}, {{"", *throttling}}));
    }
    parse_load(text);
    parse_pressure(text);
}

void check_devices(std::string_view text) {
    const auto disks = parse_disks(text);
    require(disk_rates(disks, disks, 1).size() == disks.size());
    const auto interfaces = parse_network(text);
    require(network_rates(interfaces, interfaces, 1).size() == interfaces.size());
}

void check_process(std::string_view text) {
    if (const auto process = parse_process(text, 4096)) {
        require(process->pid >= 0 && process->rss_bytes >= 0 && process->cpu_ticks >= 0);
    }
}

void check_memory(std::string_view text) {
    MemoryCounters counters;
    parse_meminfo(text, counters);
    parse_swapped(text, 4096, counters);
    require(counters.total.value_or(0) >= 0 && counters.swapped_in.value_or(0) >= 0);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    check_cpu(text);
    environment_comes_first(std::as_bytes(std::span(data, size)));
    check_devices(text);
    check_process(text);
    check_memory(text);
    for (const Mount& mount : parse_mounts(text)) {
        require(mount.folder.size() <= size && !mount.file_system.empty());
    }
    require(chosen_word(text).size() <= size && toolkit_version(text).size() <= size);
    return 0;
}
