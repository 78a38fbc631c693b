#include "stoker/monitor/host_monitor.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fmt/format.h>

#include "stoker/base/error.h"
#include "stoker/monitor/counter_text.h"

namespace stoker {
namespace {

std::optional<Pressure> read_pressure(const std::string& path) {
    const auto text = read_counter_file(path);
    return text ? parse_pressure(*text) : std::nullopt;
}

// The cores of both readings, and all of them together.
void compare_cores(const HostReading& before, const HostReading& after, HostView& view) {
    CpuTimes all_before;
    CpuTimes all_after;
    for (const CoreTimes& now : after.cores) {
        const auto found = std::ranges::find(before.cores, now.core, &CoreTimes::core);
        if (found == before.cores.end()) {
            continue;  // switched on in between
        }
        all_before += found->times;
        all_after += now.times;
        if (const auto shares = cpu_shares(found->times, now.times)) {
            view.cores.push_back({.core = now.core, .shares = *shares});
        }
    }
    view.all_cores = cpu_shares(all_before, all_after);
}

}  // namespace

HostReading read_host(const std::string& root) {
    HostReading reading;
    reading.time_ns = std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
    if (const auto text = read_counter_file(root + "/proc/stat")) {
        reading.cores = parse_cpu_times(*text);
    }
    if (const auto text = read_counter_file(root + "/proc/loadavg")) {
        reading.load = parse_load(*text);
    }
    reading.cpu_pressure = read_pressure(root + "/proc/pressure/cpu");
    reading.io_pressure = read_pressure(root + "/proc/pressure/io");
    reading.throttling = read_throttling(root);
    reading.memory = read_memory(root);
    reading.disks = read_disks(root);
    reading.network = read_network(root);
    reading.processes = read_processes(root);
    return reading;
}

HostView compare(const HostReading& before, const HostReading& after) {
    HostView view;
    view.seconds = 1e-9 * static_cast<double>(after.time_ns - before.time_ns);
    if (view.seconds <= 0) {
        throw InvalidArgument({.where = "compare",
                               .expected = "two readings of the host, the later one last",
                               .got = fmt::format("{} s in between", view.seconds)});
    }
    compare_cores(before, after, view);
    view.load = after.load;
    view.cpu_pressure = after.cpu_pressure;
    view.io_pressure = after.io_pressure;
    view.throttled = throttled_share(before.throttling, after.throttling);
    view.memory = after.memory;
    const auto per_second = [&](std::optional<double> amount) {
        return amount ? std::optional(*amount / view.seconds) : std::nullopt;
    };
    view.swap_in_bytes = per_second(difference(before.memory.swapped_in, after.memory.swapped_in));
    view.swap_out_bytes = per_second(difference(before.memory.swapped_out, after.memory.swapped_out));
    view.disks = disk_rates(before.disks, after.disks, view.seconds);
    view.network = network_rates(before.network, after.network, view.seconds);
    view.processes =
        process_rates(before.processes, after.processes, view.seconds, static_cast<double>(::sysconf(_SC_CLK_TCK)));
    return view;
}

HostMonitor::HostMonitor(const std::string& root, const std::string& nvml)
    : root_(root), nvml_(nvml, root), before_(read_host(root)) {}

HostView HostMonitor::next() {
    HostReading after = read_host(root_);
    HostView view = compare(before_, after);
    view.gpus = nvml_.read(/*pcie_throughput=*/true);
    before_ = std::move(after);
    return view;
}

}  // namespace stoker
