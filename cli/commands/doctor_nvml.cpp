// Checks of GPUs that only the driver's management library answers: PCIe, persistence, ECC, clocks.
#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <functional>

#include "cli/commands/doctor.h"
#include "stoker/base/pluralize.h"
#include "stoker/monitor/host_settings.h"
#include "stoker/monitor/nvml.h"

namespace stoker::cli {
namespace {

using Gpus = std::vector<GpuCounters>;

// What is wrong with a GPU: a text such as "x8 of x16"; empty if nothing is, or if it does not report it.
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
    const bool slow = gpu.pcie->generation < gpu.pcie_max->generation && gpu.busy.value_or(0) >= kBusy;
    if (gpu.pcie->width >= gpu.pcie_max->width && !slow) {
        return "";
    }
    return fmt::format("generation {} x{} of {} x{}", gpu.pcie->generation, gpu.pcie->width, gpu.pcie_max->generation,
                       gpu.pcie_max->width);
}

std::string pcie_text(const Gpus& gpus) {
    const auto first = std::ranges::find_if(gpus, [](const GpuCounters& gpu) { return gpu.pcie_max.has_value(); });
    return first == gpus.end() ? ""
                               : fmt::format("generation {} x{}", first->pcie_max->generation, first->pcie_max->width);
}

std::string ecc_problem(const GpuCounters& gpu) {
    if (gpu.ecc_uncorrected.value_or(0) > 0) {
        return pluralize(*gpu.ecc_uncorrected, "uncorrected error");
    }
    return gpu.ecc == false ? "off" : "";
}

std::string clock_problem(const GpuCounters& gpu) {
    if (!is_throttled(gpu.clock_reasons.value_or(0))) {
        return "";
    }
    const std::string celsius = gpu.celsius ? fmt::format(", {} C", *gpu.celsius) : "";
    return fmt::format("{}{}", fmt::join(clock_reason_names(*gpu.clock_reasons), ", "), celsius);
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

}  // namespace

std::vector<Check> check_nvml() {
    const Nvml nvml;
    std::vector<Check> checks;
    if (!nvml.installed()) {
        return checks;  // check_gpu says that there is no driver
    }
    if (!nvml.problem().empty()) {
        checks.push_back({.name = "GPU management",
                          .status = CheckStatus::warn,
                          .found = nvml.problem(),
                          .expected = "NVML, the driver's management library",
                          .why = "without it nothing is known of PCIe, ECC, clocks and temperature",
                          .fix = "after an update of the driver: sudo reboot; in a container: start it again"});
        return checks;
    }
    add_module_check(nvml.driver_version(), checks);
    const Gpus gpus = nvml.read(/*pcie_throughput=*/false);
    add_check(
        gpus, [](const GpuCounters& gpu) { return gpu.pcie && gpu.pcie_max; }, pcie_problem,
        {.name = "PCIe",
         .found = pcie_text(gpus),
         .expected = "all lanes that GPU and slot have",
         .why = "fewer lanes or an older generation make every copy to the GPU slower",
         .fix = "sudo lspci -vv | grep -E 'NVIDIA|LnkSta'; then seat the GPU again, or move it to a wider slot"},
        checks);
    add_check(
        gpus, [](const GpuCounters& gpu) { return gpu.persistence.has_value(); },
        [](const GpuCounters& gpu) { return gpu.persistence == false ? "off" : ""; },
        {.name = "persistence",
         .found = "on",
         .expected = "on",
         .why = "otherwise the driver initialises the GPU again for each program, which takes seconds",
         .fix = "sudo nvidia-smi -pm 1"},
        checks);
    add_check(
        gpus, [](const GpuCounters& gpu) { return gpu.ecc || gpu.ecc_uncorrected; }, ecc_problem,
        {.name = "ECC",
         .found = "on, no uncorrected error",
         .expected = "on, without uncorrected errors",
         .why = "an uncorrected error ends programs; without ECC it changes results in silence",
         .fix = "nvidia-smi -q -d ECC; off: sudo nvidia-smi -e 1 and reboot; errors that come back: replace the GPU"},
        checks);
    add_check(
        gpus, [](const GpuCounters& gpu) { return gpu.clock_reasons.has_value(); }, clock_problem,
        {.name = "GPU clocks",
         .found = "not held back",
         .expected = "clocks that neither heat nor power hold back",
         .why = "a throttled GPU trains slower than its figures",
         .fix = "nvidia-smi -q -d PERFORMANCE,POWER,TEMPERATURE; improve cooling, or raise the limit: sudo nvidia-smi "
                "-pl"},
        checks);
    return checks;
}

}  // namespace stoker::cli
