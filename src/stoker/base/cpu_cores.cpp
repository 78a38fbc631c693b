// Reads sched_getaffinity and the cgroup files. A file that is absent, malformed or says "max" sets no limit.
#include "stoker/base/cpu_cores.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>

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

// The group of this process in the hierarchy of `controller` (empty in v2); "/" if it is not listed.
std::filesystem::path own_group(const std::string& listing, const std::string& controller) {
    std::ifstream file(listing);
    for (std::string line; std::getline(file, line);) {  // "4:cpu,cpuacct:/a/b" in v1, "0::/a/b" in v2
        const auto first = line.find(':');
        const auto second = first == std::string::npos ? first : line.find(':', first + 1);
        if (second == std::string::npos) {
            continue;
        }
        const std::string controllers = fmt::format(",{},", line.substr(first + 1, second - first - 1));
        if (controllers.find(fmt::format(",{},", controller)) != std::string::npos) {
            return line.substr(second + 1);
        }
    }
    return "/";
}

// The quotas of all groups above a group apply to it. A container often sees its own group mounted as the root: the
// names below do not exist there, and the root's quota applies.
double tightest_quota(const std::string& mount, std::filesystem::path group, double (*quota)(const std::string&)) {
    double tightest = quota(mount);
    for (; group.has_relative_path(); group = group.parent_path()) {
        const double cores = quota(mount + group.string());
        if (cores > 0 && (tightest <= 0 || cores < tightest)) {
            tightest = cores;
        }
    }
    return std::max(tightest, 0.0);
}

double cgroup_quota(const std::string& mount, const std::string& listing) {
    const double unified = tightest_quota(mount, own_group(listing, ""), quota_v2);
    return unified > 0 ? unified : tightest_quota(mount + "/cpu", own_group(listing, "cpu"), quota_v1);
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
    cores.ranks_on_host = environment_count("LOCAL_WORLD_SIZE");
    cores.usable = usable_cores(cores.affinity, cores.quota, cores.ranks_on_host);
    return cores;
}

}  // namespace stoker
