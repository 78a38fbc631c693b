// Checks of settings that cost speed without an error: the container's quota, clocks, huge pages, swap, locked memory.
#include <sys/resource.h>

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/commands/doctor.h"
#include "cli/terminal/print.h"
#include "stoker/base/cpu_cores.h"
#include "stoker/monitor/cpu_counters.h"
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

Check check_quota() {
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
    const auto used = read_throttling();
    const double share = used ? static_cast<double>(used->throttled_periods) / static_cast<double>(used->periods) : 0;
    check.found = fmt::format("{:.1f} of {} cores, used up in {:.0f} % of the periods so far", cores.quota,
                              cores.affinity, 100 * share);
    return finished(check, share <= kOften);
}

// Virtual machines and most containers do not show the governor.
void add_clock(std::vector<Check>& checks) {
    const std::vector<std::string> governors = clock_governors();
    if (governors.empty()) {
        return;
    }
    checks.push_back(finished({.name = "clock",
                               .found = fmt::format("governor {}", fmt::join(governors, " and ")),
                               .expected = "any but powersave",
                               .why = "decoding may run below the processor's full speed, and measurements vary",
                               .fix = "sudo cpupower frequency-set -g performance"},
                              std::ranges::find(governors, "powersave") == governors.end()));
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
                               .fix = "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled"},
                              mode != "never"));
}

Check check_swap() {
    constexpr std::int64_t kMuch = std::int64_t{256} << 20;
    const MemoryCounters memory = read_memory();
    Check check{.name = "swap",
                .found = "none",
                .expected = "none, or less than 256 MiB in use",
                .why = "memory that was swapped out is read back from a disk in the middle of a step",
                .fix = "close other programs, then: sudo swapoff -a && sudo swapon -a"};
    if (memory.swap_total.value_or(0) <= 0) {
        return finished(check, true);
    }
    const std::int64_t used = *memory.swap_total - memory.swap_free.value_or(*memory.swap_total);
    check.found = fmt::format("{} of {} in use", byte_text(used), byte_text(*memory.swap_total));
    if (const auto eager = swappiness()) {
        check.found += fmt::format(", swappiness {}", *eager);
    }
    return finished(check, used < kMuch);
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
         .fix = "ulimit -l unlimited; in a container: --ulimit memlock=-1"},
        !limited || !rdma);
}

}  // namespace

std::vector<Check> check_settings() {
    std::vector<Check> checks = {check_quota()};
    add_clock(checks);
    add_huge_pages(checks);
    checks.push_back(check_swap());
    checks.push_back(check_locked_memory());
    return checks;
}

}  // namespace stoker::cli
