// The upper half of the screen: GPUs, cores and memory. A colour marks what slows training down, not what is busy.
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/terminal/table.h"
#include "cli/top/top_view.h"

namespace stoker::cli {
namespace {

constexpr double kGiB = 1 << 30;
constexpr int kLabel = 8;  // columns of "Memory  "

std::string gib(std::int64_t bytes) {
    return fmt::format("{:.1f}", static_cast<double>(bytes) / kGiB);
}

std::string percent(double share) {
    return fmt::format("{:.0f} %", 100 * share);
}

ScreenLine labelled(const std::string& label, int rank = 0) {
    ScreenLine line{.pieces = {}, .rank = rank};
    return std::move(line.add(fmt::format("{:<{}}", label, kLabel), Tone::title));
}

// "good" below `warn`, "bad" from `bad` on.
Tone tone_of(double value, double warn, double bad) {
    return value >= bad ? Tone::bad : value >= warn ? Tone::warn : Tone::plain;
}

// ---- GPUs ----

// Hot, with the clock lowered by it.
bool is_hot(const GpuCounters& gpu) {
    constexpr std::int64_t kHot = 82;
    return gpu.celsius.value_or(0) >= kHot && gpu.sm_mhz && gpu.sm_max_mhz && 100 * *gpu.sm_mhz < 85 * *gpu.sm_max_mhz;
}

ScreenLine gpu_line(const GpuCounters& gpu, const TopLayout& layout) {
    ScreenLine line = labelled(fmt::format("GPU {}", gpu.index));
    if (gpu.busy) {
        constexpr double kLow = 0.5;
        line.add(fmt::format("{:>5}", percent(*gpu.busy)), *gpu.busy < kLow ? Tone::warn : Tone::good);
        line.add("  " + share_bar(*gpu.busy, 12, layout.blocks), Tone::plain, 2);
    } else {
        line.add("busy: not reported", Tone::dim);
    }
    if (gpu.memory_used && gpu.memory_total) {
        const double used =
            static_cast<double>(*gpu.memory_used) / static_cast<double>(std::max<std::int64_t>(*gpu.memory_total, 1));
        line.add(fmt::format("  {:>5} of {} GiB", gib(*gpu.memory_used), gib(*gpu.memory_total)),
                 tone_of(used, 0.92, 0.97), 1);
    }
    if (gpu.power_watts) {
        const std::string limit = gpu.power_limit_watts ? fmt::format(" of {:.0f}", *gpu.power_limit_watts) : "";
        line.add(fmt::format("  {:>4.0f}{} W", *gpu.power_watts, limit), Tone::plain, 3);
    }
    if (gpu.celsius) {
        line.add(fmt::format("  {} C", *gpu.celsius), is_hot(gpu) ? Tone::bad : Tone::plain, 4);
    }
    line.add("  " + for_terminal(gpu.name, 40), Tone::dim, 5);
    return line;
}

void add_clock(const GpuCounters& gpu, ScreenLine& line) {
    if (!gpu.sm_mhz) {
        return;
    }
    const std::string most = gpu.sm_max_mhz ? fmt::format(" of {}", *gpu.sm_max_mhz) : "";
    line.add(fmt::format("{}{} MHz", *gpu.sm_mhz, most), is_hot(gpu) ? Tone::bad : Tone::plain);
    if (const auto reasons = gpu.clock_reasons; reasons && *reasons != 0) {
        line.add(fmt::format(": {}", fmt::join(clock_reason_names(*reasons), ", ")),
                 is_throttled(*reasons) ? Tone::warn : Tone::dim, 1);
    }
}

void add_pcie(const GpuCounters& gpu, ScreenLine& line) {
    if (gpu.pcie) {
        const bool narrow = gpu.pcie_max && gpu.pcie->width < gpu.pcie_max->width;
        const std::string most =
            gpu.pcie_max ? fmt::format(" of {} x{}", gpu.pcie_max->generation, gpu.pcie_max->width) : "";
        line.add(fmt::format("  PCIe {} x{}{}", gpu.pcie->generation, gpu.pcie->width, most),
                 narrow ? Tone::warn : Tone::plain, 3);
    }
    if (gpu.pcie_received_bytes && gpu.pcie_sent_bytes) {
        line.add(
            fmt::format("  in {:.1f}, out {:.1f} GB/s", 1e-9 * *gpu.pcie_received_bytes, 1e-9 * *gpu.pcie_sent_bytes),
            Tone::plain, 2);
    }
    if (gpu.ecc_uncorrected.value_or(0) > 0) {
        line.add(fmt::format("  {} ECC errors", *gpu.ecc_uncorrected), Tone::bad, 1);
    }
}

void add_gpus(const TopView& view, const TopLayout& layout, std::vector<ScreenLine>& lines) {
    constexpr int kDetails = 40;  // rank: many GPUs keep a line each
    if (view.host.gpus.empty()) {
        const std::string reason = view.gpu_problem.empty() ? "the driver shows none" : view.gpu_problem;
        lines.push_back(std::move(labelled("GPU").add(for_terminal(reason, 200), Tone::dim)));
    }
    for (const GpuCounters& gpu : view.host.gpus) {
        if (!gpu.problem.empty()) {
            lines.push_back(
                std::move(labelled(fmt::format("GPU {}", gpu.index)).add(for_terminal(gpu.problem, 200), Tone::bad)));
            continue;
        }
        lines.push_back(gpu_line(gpu, layout));
        ScreenLine details = labelled("", kDetails);
        add_clock(gpu, details);
        add_pcie(gpu, details);
        if (details.pieces.size() > 1) {
            lines.push_back(std::move(details));
        }
    }
}

// ---- cores ----

void add_cpu(const TopView& view, std::vector<ScreenLine>& lines) {
    const HostView& host = view.host;
    ScreenLine line = labelled("CPU");
    if (const auto& all = host.all_cores) {
        line.add(fmt::format("{:>5}", percent(all->busy())));
        line.add(fmt::format("  user {:.0f}  system {:.0f}", 100 * all->user, 100 * all->system), Tone::plain, 2);
        line.add(fmt::format("  iowait {:.0f}", 100 * all->iowait), tone_of(all->iowait, 0.1, 0.3));
        line.add(fmt::format("  steal {:.0f}", 100 * all->steal), tone_of(all->steal, 0.05, 0.2));
    } else {
        line.add("not reported", Tone::dim);
    }
    if (host.throttled) {
        line.add(fmt::format("  quota used up in {} of its periods", percent(*host.throttled)),
                 tone_of(*host.throttled, 0.05, 0.2), 1);
    }
    if (host.load) {
        line.add(fmt::format("  load {:.1f}", host.load->one), Tone::plain, 1);
        line.add(fmt::format(" {:.1f} {:.1f}", host.load->five, host.load->fifteen), Tone::dim, 4);
    }
    const CpuCores& usable = view.usable_cores;
    const std::string quota = usable.quota > 0 ? fmt::format(", quota {:.1f}", usable.quota) : "";
    line.add(fmt::format("  {} of {} cores usable{}", usable.usable, usable.online, quota), Tone::dim, 3);
    if (host.io_pressure) {
        line.add(fmt::format("  pressure: CPU {:.0f} %, disks {:.0f} %",
                             100 * host.cpu_pressure.value_or(Pressure()).some_10s, 100 * host.io_pressure->some_10s),
                 Tone::dim, 5);
    }
    lines.push_back(std::move(line));
}

// One bar for each core.
void add_core_bars(const TopView& view, const TopLayout& layout, std::vector<ScreenLine>& lines) {
    constexpr int kCell = 18;
    const int in_row = std::max((layout.columns - kLabel) / kCell, 1);
    const std::vector<CoreView>& cores = view.host.cores;
    for (std::size_t i = 0; i < cores.size(); ++i) {
        const bool first = i % static_cast<std::size_t>(in_row) == 0;
        if (first) {
            lines.push_back(labelled("", 30));
        }
        const double busy = cores[i].shares.busy();
        lines.back().add(
            fmt::format("{:>3} {} {:>4.0f} %  ", cores[i].core, share_bar(busy, 6, layout.blocks), 100 * busy),
            Tone::plain);
    }
}

// One character for each core, for machines with many.
void add_core_strips(const TopView& view, const TopLayout& layout, std::vector<ScreenLine>& lines) {
    static constexpr const char* kBlocks[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    const auto in_row = static_cast<std::size_t>(std::clamp(layout.columns - kLabel - 10, 16, 64) / 16 * 16);
    const std::vector<CoreView>& cores = view.host.cores;
    for (std::size_t i = 0; i < cores.size(); ++i) {
        if (i % in_row == 0) {
            lines.push_back(std::move(labelled("", 30).add(fmt::format("{:>4} ", cores[i].core), Tone::dim)));
        }
        const double busy = std::clamp(cores[i].shares.busy(), 0.0, 1.0);
        lines.back().add(layout.blocks ? kBlocks[std::lround(busy * 8)] : fmt::format("{:.0f}", std::floor(busy * 9)));
    }
}

// ---- memory ----

void add_memory(const TopView& view, const TopLayout& layout, std::vector<ScreenLine>& lines) {
    const MemoryCounters& memory = view.host.memory;
    ScreenLine line = labelled("Memory");
    if (memory.total && memory.available && *memory.total > 0) {
        const double used = 1 - static_cast<double>(*memory.available) / static_cast<double>(*memory.total);
        line.add(fmt::format("{:>5}", percent(used)), tone_of(used, 0.9, 0.97));
        line.add("  " + share_bar(used, 12, layout.blocks), Tone::plain, 3);
        line.add(fmt::format("  {} of {} GiB", gib(*memory.total - *memory.available), gib(*memory.total)));
    } else {
        line.add("not reported", Tone::dim);
    }
    if (memory.cgroup_limit && memory.cgroup_available) {
        const double left = static_cast<double>(*memory.cgroup_available) /
                            static_cast<double>(std::max<std::int64_t>(*memory.cgroup_limit, 1));
        line.add(fmt::format("  limit {} GiB, {} left", gib(*memory.cgroup_limit), gib(*memory.cgroup_available)),
                 tone_of(1 - left, 0.9, 0.97), 1);
    }
    if (memory.page_cache) {
        line.add(fmt::format("  cache {}", gib(*memory.page_cache)), Tone::dim, 4);
    }
    if (memory.swap_total.value_or(0) > 0 && memory.swap_free) {
        const double in = view.host.swap_in_bytes.value_or(0);
        line.add(fmt::format("  swap {} of {}", gib(*memory.swap_total - *memory.swap_free), gib(*memory.swap_total)),
                 Tone::plain, 2);
        line.add(fmt::format("  in {:.1f} MB/s", 1e-6 * in), tone_of(in, 1e6, 1e7), 1);
        line.add(fmt::format("  out {:.1f}", 1e-6 * view.host.swap_out_bytes.value_or(0)), Tone::plain, 5);
    } else {
        line.add("  no swap", Tone::dim, 5);
    }
    lines.push_back(std::move(line));
}

}  // namespace

std::vector<ScreenLine> host_lines(const TopView& view, const TopLayout& layout) {
    constexpr std::size_t kManyCores = 32;
    std::vector<ScreenLine> lines;
    add_gpus(view, layout, lines);
    add_cpu(view, lines);
    if (view.host.cores.size() <= kManyCores) {
        add_core_bars(view, layout, lines);
    } else {
        add_core_strips(view, layout, lines);
    }
    add_memory(view, layout, lines);
    return lines;
}

}  // namespace stoker::cli
