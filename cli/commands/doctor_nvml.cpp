// Checks of GPUs that only the driver's management library answers: PCIe, persistence, ECC, clocks.
#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <functional>
#include <optional>

#include "cli/commands/doctor.h"
#include "stoker/base/pluralize.h"
#include "stoker/monitor/host_settings.h"
#include "stoker/monitor/nvml.h"

namespace stoker::cli {
namespace {

using Gpus = std::vector<GpuCounters>;

// A GPU's problem: a text such as "x8 of x16"; empty if it has none, or if it does not report the value.
using Problem = std::function<std::string(const GpuCounters&)>;

// `check.found` is for GPUs without the problem. Left out if no GPU reports the value.
void add_check(const Gpus& gpus, const std::function<bool(const GpuCounters&)>& reports, const Problem& problem,
               Check check, std::vector<Check>& checks) {
    if (std::ranges::none_of(gpus, reports)) {
        return;
    }
    std::vector<std::string> problems;
    for (const GpuCounters& gpu : gpus) {
        if (const std::string text = problem(gpu); !text.empty()) {
            problems.push_back(fmt::format("GPU {}: {}", gpu.index, text));
        }
    }
    if (problems.empty()) {
        check.fix.clear();
    } else {
        check.status = CheckStatus::warn;
        check.found = fmt::format("{}", fmt::join(problems, "; "));
    }
    checks.push_back(std::move(check));
}

// An idle GPU lowers the generation to save power, so it counts only for a busy one.
std::string pcie_problem(const GpuCounters& gpu) {
    constexpr double kBusy = 0.5;
    if (!gpu.pcie || !gpu.pcie_max) {
        return "";
    }
    const PcieLink& slot = *gpu.pcie_max;
    const bool slow = gpu.pcie->generation < slot.generation && gpu.busy.value_or(0) >= kBusy;
    if (gpu.pcie->width < slot.width || slow) {
        return fmt::format("generation {} x{} of {} x{}", gpu.pcie->generation, gpu.pcie->width, slot.generation,
                           slot.width);
    }
    const std::int64_t generation = gpu.pcie_gpu_generation.value_or(slot.generation);
    const std::int64_t width = gpu.pcie_gpu_width.value_or(slot.width);
    if (slot.width < width || slot.generation < generation) {
        return fmt::format("the slot gives generation {} x{}, the GPU has {} x{}", slot.generation, slot.width,
                           generation, width);
    }
    return "";
}

std::string pcie_text(const Gpus& gpus) {
    const auto first = std::ranges::find_if(gpus, [](const GpuCounters& gpu) { return gpu.pcie_max.has_value(); });
    return first == gpus.end() ? ""
                               : fmt::format("generation {} x{}", first->pcie_max->generation, first->pcie_max->width);
}

// Without ECC nothing is wrong: most GPUs with GDDR memory are delivered so.
std::string ecc_problem(const GpuCounters& gpu) {
    if (gpu.remap_failed == true) {
        return "bad memory that could not be replaced by spare rows";
    }
    const std::string errors =
        gpu.ecc_uncorrected.value_or(0) > 0 ? pluralize(*gpu.ecc_uncorrected, "uncorrected error") : "";
    const std::string pending = gpu.remap_pending == true ? "bad rows wait for a reset to be replaced" : "";
    return errors + (errors.empty() || pending.empty() ? "" : ", ") + pending;
}

std::string ecc_text(const Gpus& gpus) {
    const auto is = [&](bool on) {
        return std::ranges::any_of(gpus, [&](const GpuCounters& gpu) { return gpu.ecc == on; });
    };
    return is(false)  ? "off (nvidia-smi -e 1 turns it on; GDDR memory then loses about 6 % of its size and some speed)"
           : is(true) ? "on, no uncorrected error"
                      : "no bad rows";
}

std::string ecc_fix(const Gpus& gpus) {
    const auto first = [&](std::optional<bool> GpuCounters::*value) {
        const auto found = std::ranges::find_if(gpus, [&](const GpuCounters& gpu) { return gpu.*value == true; });
        return found == gpus.end() ? nullptr : &*found;
    };
    if (first(&GpuCounters::remap_failed) != nullptr) {
        return "have the GPU replaced (nvidia-smi -q -d ROW_REMAPPER)";
    }
    if (const GpuCounters* gpu = first(&GpuCounters::remap_pending)) {
        return fmt::format("stop all programs on the GPU, then: sudo nvidia-smi --gpu-reset -i {}; or reboot",
                           gpu->index);
    }
    return "nvidia-smi -q -d ECC; errors that come back: have the GPU replaced";
}

// The most watts that a user may set, for a GPU that stays below them.
std::optional<double> higher_limit(const GpuCounters& gpu) {
    const bool lower =
        gpu.power_limit_watts && gpu.power_limit_max_watts && *gpu.power_limit_watts + 1 < *gpu.power_limit_max_watts;
    return lower ? gpu.power_limit_max_watts : std::nullopt;
}

// A GPU that takes all the power it can have is at work, and nothing is wrong.
std::string clock_problem(const GpuCounters& gpu) {
    const std::uint64_t reasons = gpu.clock_reasons.value_or(0);
    if (!is_throttled(reasons) || (!is_throttled(reasons & ~kPowerLimitReason) && !higher_limit(gpu))) {
        return "";
    }
    const std::string celsius = gpu.celsius ? fmt::format(", {} C", *gpu.celsius) : "";
    return fmt::format("{}{}", fmt::join(clock_reason_names(reasons), ", "), celsius);
}

std::string clock_fix(const Gpus& gpus) {
    std::string fix;
    for (const GpuCounters& gpu : gpus) {
        if ((gpu.clock_reasons.value_or(0) & kPowerLimitReason) != 0) {
            if (const auto watts = higher_limit(gpu)) {
                fix += fmt::format("{}sudo nvidia-smi -i {} -pl {:.0f}", fix.empty() ? "" : "; ", gpu.index, *watts);
            }
        }
    }
    return fix.empty() ? "nvidia-smi -q -d PERFORMANCE,POWER,TEMPERATURE; improve the cooling"
                       : fix + lasting("the same in a service that runs at boot");
}

// Programs of the driver's old version fail until the new kernel module is loaded.
void add_module_check(const std::string& library, std::vector<Check>& checks) {
    const std::string module = nvidia_module_version();
    if (module.empty() || library.empty()) {
        return;
    }
    const bool same = module == library;
    checks.push_back({.name = "driver module",
                      .status = same ? CheckStatus::ok : CheckStatus::fail,
                      .found = fmt::format("kernel module {}, libraries {}", module, library),
                      .expected = "the same version",
                      .why = "after an update of the driver CUDA does not start until the new module is loaded",
                      .fix = same ? "" : "sudo reboot; in a container: start it again"});
}

bool answers(const GpuCounters& gpu) {
    return gpu.problem.empty();
}

void add_answers(const Gpus& gpus, std::vector<Check>& checks) {
    add_check(
        gpus, [](const GpuCounters& gpu) { return !answers(gpu); }, [](const GpuCounters& gpu) { return gpu.problem; },
        {.name = "GPUs",
         .found = "",
         .expected = "all answer",
         .why = "a GPU that the driver has lost trains nothing, and a program that uses it ends with an error",
         .fix =
             "sudo dmesg | grep -i xid; then reboot; if it comes back: have the GPU, its slot and its power checked"},
        checks);
    if (!std::ranges::all_of(gpus, answers)) {
        checks.back().status = CheckStatus::fail;
    }
}

void add_settings(const Gpus& gpus, std::vector<Check>& checks) {
    add_check(
        gpus, [](const GpuCounters& gpu) { return gpu.pcie && gpu.pcie_max; }, pcie_problem,
        {.name = "PCIe",
         .found = pcie_text(gpus),
         .expected = "all lanes and the generation that the GPU has",
         .why = "fewer lanes or an older generation make every copy to the GPU slower",
         .fix = "sudo lspci -vv | grep -E 'NVIDIA|LnkCap|LnkSta'; fewer lanes than the slot has: seat the GPU again; a "
                "slot that gives less: another slot, or the slot's lanes and generation in the BIOS"},
        checks);
    add_check(
        gpus, [](const GpuCounters& gpu) { return gpu.persistence.has_value(); },
        [](const GpuCounters& gpu) { return gpu.persistence == false ? "off" : ""; },
        {.name = "persistence",
         .found = "on",
         .expected = "on",
         .why = "otherwise the driver initialises the GPU again for each program, which takes seconds",
         .fix = "sudo nvidia-smi -pm 1" + lasting("sudo systemctl enable --now nvidia-persistenced")},
        checks);
    add_check(
        gpus, [](const GpuCounters& gpu) { return gpu.ecc || gpu.ecc_uncorrected || gpu.remap_pending; }, ecc_problem,
        {.name = "ECC",
         .found = ecc_text(gpus),
         .expected = "no uncorrected errors, no bad rows",
         .why = "an uncorrected error ends programs; without ECC it changes results in silence",
         .fix = ecc_fix(gpus)},
        checks);
    add_check(
        gpus, [](const GpuCounters& gpu) { return gpu.clock_reasons.has_value(); }, clock_problem,
        {.name = "GPU clocks",
         .found = "not held back",
         .expected = "clocks that neither heat nor a lowered power limit hold back",
         .why = "a throttled GPU trains slower than its figures",
         .fix = clock_fix(gpus)},
        checks);
}

}  // namespace

std::vector<Check> check_nvml() {
    const Nvml nvml;
    std::vector<Check> checks;
    if (!nvml.installed()) {
        return checks;  // check_gpu says that the driver is missing
    }
    add_module_check(nvml.driver_version(), checks);
    if (!nvml.problem().empty()) {
        checks.push_back({.name = "GPU management",
                          .status = CheckStatus::fail,
                          .found = nvml.problem(),
                          .expected = "NVML, the driver's management library",
                          .why = "the driver is installed but does not start, and so CUDA does not either",
                          .fix = "after an update of the driver: sudo reboot; in a container: start it again"});
        return checks;
    }
    const Gpus gpus = nvml.read(/*pcie_throughput=*/false);
    add_answers(gpus, checks);
    add_settings(gpus, checks);
    return checks;
}

}  // namespace stoker::cli
