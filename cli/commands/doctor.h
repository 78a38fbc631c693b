// The checks behind `stoker doctor`: what was found, what is wanted, and what to do about it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace stoker::cli {

enum class CheckStatus { ok, warn, fail };

struct Check {
    std::string name;
    CheckStatus status = CheckStatus::ok;
    std::string found;
    std::string expected;
    std::string why;       // what depends on it
    std::string fix = {};  // empty where there is nothing to do
};

// Cores, processor, memory, shared memory, open files, disk.
std::vector<Check> check_host();

// The driver, its devices, this build's CUDA code, and whether the driver is new enough for LibTorch.
// `torch_cuda` is the CUDA version that LibTorch was built for, such as "13.0"; empty: for the CPU.
std::vector<Check> check_gpu(const std::string& torch_cuda);

// The LibTorch that the engine loads against the one it was built with, and the CUDA libraries that lie
// beside it. A missing engine is a warning, one that does not start a failure.
struct TorchChecks {
    std::vector<Check> checks;
    std::string cuda;  // as check_gpu takes it
};
TorchChecks check_torch();

}  // namespace stoker::cli
