// How many cores this process may really use, shared out between loader workers and LibTorch's
// threads. Counts the CPU affinity, the cgroup's quota and the ranks on this host, which
// std::thread::hardware_concurrency does not.
#pragma once

#include <string>

namespace stoker {

struct CoreBudget {
    int online = 1;         // processors of the machine
    int affinity = 1;       // processors this process may run on
    double quota = 0;       // cores granted by the cgroup, 0 where there is no limit
    int ranks_on_host = 1;  // LOCAL_WORLD_SIZE, as torchrun sets it
    int usable = 1;         // cores for this rank, at least 1
};

// Reads the machine. `cgroup_root` is where cgroup v2 (cpu.max) or v1 (cpu/cpu.cfs_*) is mounted,
// `own_cgroups` lists this process's groups below it.
CoreBudget read_core_budget(const std::string& cgroup_root = "/sys/fs/cgroup",
                            const std::string& own_cgroups = "/proc/self/cgroup");

// The share of a budget for one process of `ranks_on_host`: min(affinity, quota) / ranks, at least 1.
int usable_cores(int affinity, double quota, int ranks_on_host);

}  // namespace stoker
