// How many cores this process may use: CPU affinity, cgroup quota and the ranks on this host are taken into account,
// which std::thread::hardware_concurrency does not do. Loader workers and LibTorch's threads share these cores.
#pragma once

#include <string>

namespace stoker {

struct CpuCores {
    int online = 1;         // processors of the machine
    int affinity = 1;       // processors this process may run on
    double quota = 0;       // cores granted by the cgroup, 0 without a limit
    int ranks_on_host = 1;  // that share them: LOCAL_WORLD_SIZE, as torchrun sets it, or what a cluster's launcher says
    int usable = 1;         // cores for this rank, at least 1
};

// Reads the machine's limits. `cgroup_root` is where cgroup v2 (cpu.max) or v1 (cpu/cpu.cfs_*) is mounted,
// `own_cgroups` the file that lists this process's groups. Throws InvalidArgument for a LOCAL_WORLD_SIZE that is not a
// positive integer.
CpuCores cpu_cores(const std::string& cgroup_root = "/sys/fs/cgroup",
                   const std::string& own_cgroups = "/proc/self/cgroup");

// The cores of one process: min(affinity, quota) / ranks_on_host, at least 1.
int usable_cores(int affinity, double quota, int ranks_on_host);

}  // namespace stoker
