// Reads sched_getaffinity and the cgroup files. A file that is absent, malformed or says "max" sets no limit.
#include "stoker/base/cpu_cores.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <vector>

#include "stoker/base/cgroup.h"
#include "stoker/base/cluster_rank.h"
#include "stoker/base/error.h"

namespace stoker {
namespace {

int online_count() {
    return std::max(static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)), 1);
}

int affinity_count() {
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) != 0) {
        return online_count();  // the machine has more processors than cpu_set_t holds
    }
    return std::max(CPU_COUNT(&set), 1);
}

double quota_v2(const std::string& group) {
    std::ifstream file(group + "/cpu.max");
    std::string quota;
    double period = 0;
    file >> quota >> period;
    return quota == "max" || period <= 0 ? 0 : std::strtod(quota.c_str(), nullptr) / period;
}

double quota_v1(const std::string& group) {
    double quota = 0;
    double period = 0;
    std::ifstream(group + "/cpu.cfs_quota_us") >> quota;
    std::ifstream(group + "/cpu.cfs_period_us") >> period;
    return quota > 0 && period > 0 ? quota / period : 0;
}

double tightest_quota(const std::vector<std::string>& folders, double (*quota)(const std::string&)) {
    double tightest = 0;
    for (const std::string& folder : folders) {
        const double cores = quota(folder);
        if (cores > 0 && (tightest <= 0 || cores < tightest)) {
            tightest = cores;
        }
    }
    return tightest;
}

double cgroup_quota(const std::string& mount, const std::string& listing) {
    const double unified = tightest_quota(cgroup_folders(mount, "", listing), quota_v2);
    return unified > 0 ? unified : tightest_quota(cgroup_folders(mount + "/cpu", "cpu", listing), quota_v1);
}

int environment_count(const char* name) {
    const char* text = std::getenv(name);
    if (text == nullptr || *text == '\0') {
        return 1;
    }
    int count = 0;
    const char* end = text + std::strlen(text);
    const auto [stop, error] = std::from_chars(text, end, count);
    if (error != std::errc{} || stop != end || count < 1) {
        throw InvalidArgument({.where = name,
                               .expected = "the number of processes that share this host, at least 1",
                               .got = "\"" + std::string(text) + "\"",
                               .hint = "`stoker launch` and torchrun set it; unset it for a single process"});
    }
    return count;
}

// The ranks of this host, unless its launcher gave each of them its own cores, as srun does with --cpus-per-task and
// mpirun by default.
int ranks_that_share(int affinity) {
    if (std::getenv("LOCAL_WORLD_SIZE") != nullptr) {
        return environment_count("LOCAL_WORLD_SIZE");
    }
    const std::optional<ClusterRank> cluster = cluster_rank();
    if (!cluster) {
        return 1;
    }
    const int host = cluster->host_cores > 0 ? cluster->host_cores : online_count();
    return affinity * cluster->local_size <= host ? 1 : cluster->local_size;
}

}  // namespace

int usable_cores(int affinity, double quota, int ranks_on_host) {
    double cores = affinity;
    if (quota > 0) {
        cores = std::min(cores, quota);
    }
    return std::max(static_cast<int>(std::floor(cores / std::max(ranks_on_host, 1) + 1e-9)), 1);
}

CpuCores cpu_cores(const std::string& cgroup_root, const std::string& own_cgroups) {
    CpuCores cores;
    cores.online = online_count();
    cores.affinity = affinity_count();
    cores.quota = cgroup_quota(cgroup_root, own_cgroups);
    cores.ranks_on_host = ranks_that_share(cores.affinity);
    cores.usable = usable_cores(cores.affinity, cores.quota, cores.ranks_on_host);
    return cores;
}

}  // namespace stoker
