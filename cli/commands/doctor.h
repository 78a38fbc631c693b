// The checks of `stoker doctor`: each finding, the expectation, and how to fix a difference.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "stoker/monitor/host_counters.h"

namespace stoker::cli {

enum class CheckStatus { ok, warn, fail };

struct Check {
    std::string name;
    CheckStatus status = CheckStatus::ok;
    std::string found;
    std::string expected;
    std::string why;       // what depends on it
    std::string fix = {};  // empty if status is ok
};

// Cores, processor, memory, shared memory, open files, space on the disk. `data`: as for check_storage.
std::vector<Check> check_host(const std::string& data);

// The container's quota, other processes, clocks, huge pages, swap, locked memory. Quota, other processes and swap are
// judged by the time since `before`.
std::vector<Check> check_settings(const HostCounters& before);

// Inodes and the measured speed of the working directory's disk, and of that of `data`, a file or folder; empty: none.
// Takes up to a second for each. Throws IoError if `data` does not exist.
std::vector<Check> check_storage(const std::string& data);

// The NVIDIA driver, its devices, this build's CUDA code, and whether the driver is new enough for LibTorch.
// `torch_cuda` is the CUDA version that LibTorch was built for, such as "13.0"; empty for a CPU build.
std::vector<Check> check_gpu(const std::string& torch_cuda);

// PCIe, persistence, ECC and clocks of all GPUs; nothing without NVIDIA's driver.
std::vector<Check> check_nvml();

// Compares the LibTorch that the engine loads with the one it was built with, and checks the CUDA libraries next to it.
// A missing engine is a warning; an engine that does not start is a failure.
struct TorchChecks {
    std::vector<Check> checks;
    std::string cuda = {};              // check_gpu's `torch_cuda`
    std::filesystem::path folder = {};  // "torch"; empty if the engine does not start
};
TorchChecks check_torch();

// CUDA libraries on this machine that are not LibTorch's: whether they fit it.
std::vector<Check> check_cuda_files(const TorchChecks& torch);

// How to raise a limit of the process: by `ulimit FLAG`, or, if the hard limit is lower, by the administrator.
// `name` and `unit` are limits.conf's and systemd's, such as "nofile" and "NOFILE".
std::string raise_limit(const std::string& name, const std::string& unit, const std::string& flag, bool allowed,
                        const std::string& value);

// The addition to a fix that lasts until the next boot: " (until the next boot; to keep it: HOW)".
std::string lasting(const std::string& how);

}  // namespace stoker::cli
