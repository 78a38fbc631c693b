// Checks of the machine that need no GPU: from /proc, /sys and a few system calls.
#include <sys/resource.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <system_error>

#include "cli/commands/doctor.h"
#include "cli/terminal/print.h"
#include "stoker/base/cpu_cores.h"
#include "stoker/base/cpu_features.h"
#include "stoker/base/error.h"
#include "stoker/base/memory_limit.h"
#include "stoker/formats/tfrecord/tf_names.h"

namespace stoker::cli {
namespace {

constexpr std::int64_t kGiB = std::int64_t{1} << 30;

Check check_cores() {
    const CpuCores budget = cpu_cores();
    std::string found = fmt::format("{} usable of {} online", budget.usable, budget.online);
    if (budget.affinity < budget.online) {
        found += fmt::format(", affinity allows {}", budget.affinity);
    }
    if (budget.quota > 0) {
        found += fmt::format(", cgroup quota {:.1f}", budget.quota);
    }
    if (budget.ranks_on_host > 1) {
        found += fmt::format(", shared by {} ranks", budget.ranks_on_host);
    }
    return {.name = "cores",
            .status = budget.usable >= 2 ? CheckStatus::ok : CheckStatus::warn,
            .found = found,
            .expected = "at least 2",
            .why = "loader threads and the training thread run at the same time",
            .fix = budget.usable >= 2 ? ""
                   : budget.online > budget.usable
                       ? "give this process more cores: taskset, the container's --cpus, Slurm's "
                         "--cpus-per-task"
                       : "use a machine with more cores"};
}

Check check_cpu() {
    const CpuFeatures& features = cpu_features();
    const bool simd = features.avx2 || features.neon;
    return {.name = "cpu",
            .status = simd ? CheckStatus::ok : CheckStatus::warn,
            .found =
                fmt::format("{} ({})", features.model.empty() ? "unknown model" : features.model,
                            features.names().empty() ? "no SIMD" : fmt::format("{}", fmt::join(features.names(), " "))),
            .expected = "avx2 with FMA and BMI2, or neon",
            .why = "without it resize and normalise take several times longer",
            .fix = simd ? "" : "in a virtual machine, pass the host's CPU model through"};
}

Check check_memory() {
    const MemoryLimit limit = memory_limit();
    const std::string found = memory_text();
    const bool enough = limit.available >= static_cast<std::uint64_t>(2 * kGiB);
    return {
        .name = "memory",
        .status = enough ? CheckStatus::ok : CheckStatus::warn,
        .found = found,
        .expected = "2 GiB available",
        .why = "LibTorch, the batches in flight and cache = \"ram\" need it",
        .fix = enough ? "" : "close other programs, raise the limit, or lower batch_size, prefetch and cache_bytes"};
}

// Fills in `found` and `status`; `least` is in bytes.
Check check_space(Check check, const std::string& path, std::int64_t least) {
    struct statvfs info {};
    if (statvfs(path.c_str(), &info) != 0) {
        check.status = CheckStatus::warn;
        check.found = fmt::format("{}: {}", path, errno_text());
        return check;
    }
    const auto unit = static_cast<std::int64_t>(info.f_frsize);
    const std::int64_t free = static_cast<std::int64_t>(info.f_bavail) * unit;
    check.found =
        fmt::format("{} free of {}", byte_text(free), byte_text(static_cast<std::int64_t>(info.f_blocks) * unit));
    check.status = free >= least ? CheckStatus::ok : CheckStatus::warn;
    if (free >= least) {
        check.fix.clear();
    }
    return check;
}

// The shards in a folder of data; none if `data` is something else.
rlim_t shards_in(const std::string& data) {
    std::error_code unreadable;
    rlim_t shards = 0;
    for (std::filesystem::directory_iterator entry(data, unreadable), end; entry != end; entry.increment(unreadable)) {
        const std::string kind = entry->path().extension();
        const bool tfrecord = is_tfrecord_name(entry->path().filename().string());
        shards += kind == ".tar" || kind == ".stk" || tfrecord ? 1 : 0;
    }
    return shards;
}

std::string limit_text(rlim_t limit) {
    return limit == RLIM_INFINITY ? "unlimited" : fmt::to_string(limit);
}

// Without `data` enough for 256 shards is expected.
Check check_open_files(const std::string& data) {
    constexpr rlim_t kLeast = 1024;
    rlimit limit{};
    getrlimit(RLIMIT_NOFILE, &limit);
    // A quarter of the descriptors is for the shards of a data set (spare_descriptors in io/shard_files.h).
    const rlim_t shards = shards_in(data);
    const rlim_t expected = std::max(kLeast, 4 * shards);
    const bool enough = limit.rlim_cur >= expected;  // RLIM_INFINITY is the largest number
    return {.name = "open files",
            .status = enough ? CheckStatus::ok : CheckStatus::warn,
            .found = fmt::format("{} at most, hard limit {}", limit_text(limit.rlim_cur), limit_text(limit.rlim_max)),
            .expected = shards > 0 ? fmt::format("at least {}, for {} shards", expected, shards)
                                   : fmt::format("at least {}", expected),
            .why = "a quarter of them stay open for a data set's shards; further shards are opened again for each read",
            .fix = enough
                       ? ""
                       : raise_limit("nofile", "NOFILE", "-n", limit.rlim_max >= expected, fmt::to_string(expected))};
}

}  // namespace

std::vector<Check> check_host(const std::string& data) {
    std::vector<Check> checks = {check_cores(), check_cpu(), check_memory()};
    checks.push_back(
        check_space({.name = "shared memory",
                     .found = "",
                     .expected = "256 MiB free in /dev/shm",
                     .why = "NCCL and Python's loader processes pass data through it; Stoker's own threads "
                            "do not need it",
                     .fix = "in a container: --shm-size=8g or --ipc=host"},
                    "/dev/shm", kGiB / 4));
    checks.push_back(check_open_files(data));
    checks.push_back(check_space({.name = "disk",
                                  .found = "",
                                  .expected = "1 GiB free in the working directory",
                                  .why = "runs/ with its checkpoints is written there",
                                  .fix = "free some space, or train with --out on another disk"},
                                 ".", kGiB));
    return checks;
}

}  // namespace stoker::cli
