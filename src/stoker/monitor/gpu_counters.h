// A GPU's readings at a moment. Absent: this GPU, its driver or a MIG partition does not report the value.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace stoker {

struct GpuProcess {
    std::int64_t pid = 0;  // on the host, which differs from the container's
    std::optional<std::int64_t> memory_bytes = {};
};

struct PcieLink {
    std::int64_t generation = 0;  // 5 moves 4 GB/s for each lane
    std::int64_t width = 0;       // lanes
};

struct GpuCounters {
    int index = 0;
    std::string name = {};
    std::string problem = {};                // why nothing is known of the GPU, e.g. "GPU is lost"; empty if it answers
    std::optional<double> busy = {};         // share of the last sample period (up to 1 s) with a kernel running
    std::optional<double> memory_busy = {};  // share of it with memory being read or written
    std::optional<std::int64_t> memory_total = {};  // bytes
    std::optional<std::int64_t> memory_used = {};
    std::optional<double> power_watts = {};
    std::optional<double> power_limit_watts = {};
    std::optional<double> power_limit_max_watts = {};  // that a user may set
    std::optional<std::int64_t> celsius = {};
    std::optional<std::int64_t> sm_mhz = {};
    std::optional<std::int64_t> sm_max_mhz = {};
    std::optional<std::uint64_t> clock_reasons = {};       // bits: why the clock is not higher; see clock_reason_names
    std::optional<PcieLink> pcie = {};                     // now: an idle GPU lowers the generation to save power
    std::optional<PcieLink> pcie_max = {};                 // of GPU and slot together
    std::optional<std::int64_t> pcie_gpu_generation = {};  // of the GPU alone
    std::optional<std::int64_t> pcie_gpu_width = {};
    std::optional<double> pcie_received_bytes = {};  // a second, over 20 ms
    std::optional<double> pcie_sent_bytes = {};
    std::optional<bool> ecc = {};
    std::optional<std::int64_t> ecc_uncorrected = {};  // errors since the driver was loaded
    std::optional<std::int64_t> ecc_corrected = {};
    std::optional<bool> remap_pending = {};  // bad rows of the memory are replaced at the next reset
    std::optional<bool> remap_failed = {};   // bad rows could not be replaced
    std::optional<bool> persistence = {};    // the driver keeps the GPU's state while no program uses it
    std::optional<bool> mig = {};
    std::optional<std::vector<GpuProcess>> processes = {};
};

// The reasons in words: "idle", "power limit", "temperature". Empty if nothing holds the clock back.
std::vector<std::string> clock_reason_names(std::uint64_t reasons);

// The reason of a GPU that takes all the power it may.
inline constexpr std::uint64_t kPowerLimitReason = 0x4;

// The reasons by which a limit or a fault holds the clock back: neither idleness nor a clock that a user chose.
std::uint64_t throttling_reasons(std::uint64_t reasons);
inline bool is_throttled(std::uint64_t reasons) {
    return throttling_reasons(reasons) != 0;
}

}  // namespace stoker
