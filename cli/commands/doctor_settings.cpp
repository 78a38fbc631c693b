// Checks of what costs speed without an error: the container's quota, other processes, clocks, huge pages, swap, locked
// memory.
#include <sys/resource.h>

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <iterator>

#include "cli/commands/doctor.h"
#include "cli/terminal/print.h"
#include "stoker/base/cpu_cores.h"
#include "stoker/monitor/host_settings.h"
#include "stoker/monitor/memory_counters.h"

namespace stoker::cli {
namespace {

// A fix belongs to a check that is not ok.
Check finished(Check check, bool good) {
    check.status = good ? CheckStatus::ok : CheckStatus::warn;
    if (good) {
        check.fix.clear();
    }
    return check;
}

Check check_quota(const HostRates& since) {
    const CpuCores cores = cpu_cores();
    Check check{
        .name = "cpu quota",
        .found = "none",
        .expected = "none, or one that is used up in at most 5 % of its periods",
        .why = "a process that has used up its quota stands still for the rest of the period, and so does a step",
        .fix = "raise the container's --cpus (Kubernetes: resources.limits.cpu), or lower data.workers"};
    if (cores.quota <= 0) {
        return finished(check, true);
    }
    constexpr double kOften = 0.05;
    check.found = fmt::format("{:.1f} of {} cores", cores.quota, cores.affinity);
    if (since.throttled) {
        check.found +=
            fmt::format(", used up in {:.0f} % of its periods during {:.1f} s", 100 * *since.throttled, since.seconds);
    }
    return finished(check, since.throttled.value_or(0) <= kOften);
}

// Only for the cores that this process may run on: others do not matter.
Check check_other_processes(const HostRates& since) {
    constexpr double kEnough = 0.7;
    const CpuCores cores = cpu_cores();
    const double others = since.busy.value_or(0) * cores.affinity - since.user_cores - since.system_cores;
    const double left = since.busy ? cores.affinity - others : cores.affinity;
    return finished({.name = "other processes",
                     .found = since.busy ? fmt::format("{:.1f} of {} cores kept busy during {:.1f} s",
                                                       std::max(others, 0.0), cores.affinity, since.seconds)
                                         : "not reported",  // a sandbox may have no /proc/stat
                     .expected = fmt::format("at least {:.1f} cores left", kEnough * cores.usable),
                     .why = "training waits for a core, and measurements vary",
                     .fix = "stop them, or wait until they are done: `stoker top` shows the busiest"},
                    left >= kEnough * cores.usable);
}

std::string policy_text(const ClockPolicy& policy) {
    return fmt::format("governor {}{}{}", policy.governor, policy.driver.empty() ? "" : " of " + policy.driver,
                       policy.preference.empty() ? "" : " with preference " + policy.preference);
}

// Virtual machines and most containers do not show the governor.
void add_clock(std::vector<Check>& checks) {
    const std::vector<ClockPolicy> policies = clock_policies();
    if (policies.empty()) {
        return;
    }
    std::vector<std::string> texts;
    std::ranges::transform(policies, std::back_inserter(texts), policy_text);
    checks.push_back(finished({.name = "clock",
                               .found = fmt::format("{}", fmt::join(texts, "; ")),
                               .expected = "a governor or preference that does not save power",
                               .why = "decoding may run below the processor's full speed, and measurements vary",
                               .fix = "sudo cpupower frequency-set -g performance" +
                                      lasting("sudo tuned-adm profile throughput-performance")},
                              std::ranges::none_of(policies, &ClockPolicy::saves_power)));
}

void add_huge_pages(std::vector<Check>& checks) {
    const std::string mode = huge_pages();
    if (mode.empty()) {
        return;
    }
    checks.push_back(finished({.name = "huge pages",
                               .found = mode,
                               .expected = "always or madvise",
                               .why = "large tensors and caches in small pages cost page faults and TLB misses",
                               .fix = "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled" +
                                      lasting("transparent_hugepage=madvise on the kernel's command line")},
                              mode != "never"));
}

// Memory that was swapped out long ago and is never read again costs nothing, so swap is judged by reads.
Check check_swap(const HostRates& since) {
    constexpr double kMuch = 1 << 20;  // bytes a second
    const MemoryCounters memory = read_memory();
    Check check{.name = "swap",
                .found = "none",
                .expected = "less than 1 MiB/s read back",
                .why = "memory that was swapped out is read back from a disk in the middle of a step",
                .fix = "close other programs, or lower batch_size, prefetch and cache_bytes"};
    if (memory.swap_total.value_or(0) <= 0) {
        return finished(check, true);
    }
    const std::int64_t used = *memory.swap_total - memory.swap_free.value_or(*memory.swap_total);
    check.found = memory.swap_free ? fmt::format("{} of {} in use", byte_text(used), byte_text(*memory.swap_total))
                                   : byte_text(*memory.swap_total);
    if (const auto eager = swappiness()) {
        check.found += fmt::format(", swappiness {}", *eager);
    }
    const double read_back = since.swap_in_bytes.value_or(0);
    if (since.swap_in_bytes) {
        check.found += fmt::format(", {:.1f} MiB/s read back", read_back / kMuch);
    }
    if (memory.available.value_or(0) > used) {  // otherwise it would end programs
        check.fix += ", then: sudo swapoff -a && sudo swapon -a";
    }
    return finished(check, read_back < kMuch);
}

Check check_locked_memory() {
    rlimit limit{};
    getrlimit(RLIMIT_MEMLOCK, &limit);
    const bool limited = limit.rlim_cur != RLIM_INFINITY;
    const bool rdma = has_rdma();
    return finished(
        {.name = "locked memory",
         .found = fmt::format("{}{}",
                              limited ? byte_text(static_cast<std::int64_t>(limit.rlim_cur)) + " at most" : "no limit",
                              rdma ? ", with an RDMA network" : ", without an RDMA network"),
         .expected = rdma ? "no limit" : "any limit; none with an RDMA network",
         .why = "NCCL locks the memory that it sends over InfiniBand; pinned batches need no limit raised",
         .fix = raise_limit("memlock", "MEMLOCK", "-l", limit.rlim_max == RLIM_INFINITY, "unlimited")},
        !limited || !rdma);
}

}  // namespace

std::vector<Check> check_settings(const HostCounters& before) {
    const HostRates since = rates(before, read_host_counters());
    std::vector<Check> checks = {check_quota(since), check_other_processes(since)};
    add_clock(checks);
    add_huge_pages(checks);
    checks.push_back(check_swap(since));
    checks.push_back(check_locked_memory());
    return checks;
}

}  // namespace stoker::cli
