// Settings of the host that change how fast training runs: clocks, huge pages, swap. `root` replaces "/" in tests;
// absent is what the system does not show.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stoker {

// How the kernel chooses the clocks of cores.
struct ClockPolicy {
    std::string governor;         // "performance", "powersave", "schedutil", ...
    std::string driver = {};      // "intel_pstate", "amd-pstate-epp", "acpi-cpufreq", ...
    std::string preference = {};  // of processors that choose the clock themselves: "balance_performance", "power", ...

    auto operator<=>(const ClockPolicy&) const = default;  // NOLINT(modernize-use-nullptr): a false alarm

    // True if the clock stays below what the work asks for. The governor "powersave" does so, except with processors
    // that choose the clock themselves: there it is the default, and the preference decides.
    bool saves_power() const;
};

// The policies of the cores, each once, sorted. Virtual machines have none.
std::vector<ClockPolicy> clock_policies(const std::string& root = "");

// The chosen word of a text such as "always [madvise] never"; empty without one.
std::string chosen_word(std::string_view text);

// Transparent huge pages: "always", "madvise" or "never"; empty if the kernel has none.
std::string huge_pages(const std::string& root = "");

// How eagerly the kernel swaps, 0 to 200.
std::optional<std::int64_t> swappiness(const std::string& root = "");

// True if the machine has InfiniBand or another RDMA network.
bool has_rdma(const std::string& root = "");

// "570.86.15", of the kernel's NVIDIA module; empty if none is loaded.
std::string nvidia_module_version(const std::string& root = "");

// The version in the version.json of a CUDA toolkit, such as "13.0.1"; empty if the file does not say it.
std::string toolkit_version(std::string_view version_json);

}  // namespace stoker
