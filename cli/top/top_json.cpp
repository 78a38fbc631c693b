// The document of `stoker top --once --json`. A value that the system does not report is null.
#include <nlohmann/json.hpp>

#include "cli/top/top_view.h"
#include "stoker/base/printable.h"

namespace stoker::cli {
namespace {

using Json = nlohmann::ordered_json;

template <typename Value>
Json or_null(const std::optional<Value>& value) {
    return value ? Json(*value) : Json();
}

Json pressure(const std::optional<Pressure>& value) {
    return value ? Json(value->some_10s) : Json();
}

Json shares(const CpuShares& shares) {
    return {{"busy", shares.busy()},
            {"user", shares.user},
            {"system", shares.system},
            {"iowait", shares.iowait},
            {"steal", shares.steal}};
}

Json cpu_json(const TopView& view) {
    const HostView& host = view.host;
    const CpuCores& cores = view.usable_cores;
    Json json = {{"online", cores.online},
                 {"usable", cores.usable},
                 {"quota", cores.quota > 0 ? Json(cores.quota) : Json()},
                 {"all", host.all_cores ? shares(*host.all_cores) : Json()},
                 {"throttled", or_null(host.throttled)},
                 {"load", host.load ? Json{host.load->one, host.load->five, host.load->fifteen} : Json()},
                 {"pressure", {{"cpu", pressure(host.cpu_pressure)}, {"io", pressure(host.io_pressure)}}},
                 {"cores", Json::array()}};
    for (const CoreView& core : host.cores) {
        Json entry = {{"core", core.core}};
        entry.update(shares(core.shares));
        json["cores"].push_back(std::move(entry));
    }
    return json;
}

Json memory_json(const HostView& host) {
    const MemoryCounters& memory = host.memory;
    return {{"total_bytes", or_null(memory.total)},
            {"available_bytes", or_null(memory.available)},
            {"page_cache_bytes", or_null(memory.page_cache)},
            {"limit_bytes", or_null(memory.cgroup_limit)},
            {"limit_available_bytes", or_null(memory.cgroup_available)},
            {"swap_total_bytes", or_null(memory.swap_total)},
            {"swap_free_bytes", or_null(memory.swap_free)},
            {"swap_in_bytes_per_second", or_null(host.swap_in_bytes)},
            {"swap_out_bytes_per_second", or_null(host.swap_out_bytes)},
            {"pressure", pressure(memory.pressure)}};
}

Json link(const std::optional<PcieLink>& link) {
    return link ? Json{{"generation", link->generation}, {"width", link->width}} : Json();
}

// The link of the GPU alone; each figure may be missing.
Json link(const GpuCounters& gpu) {
    return gpu.pcie_gpu_generation || gpu.pcie_gpu_width
               ? Json{{"generation", or_null(gpu.pcie_gpu_generation)}, {"width", or_null(gpu.pcie_gpu_width)}}
               : Json();
}

Json gpu_json(const GpuCounters& gpu) {
    Json processes;
    for (const GpuProcess& process : gpu.processes.value_or(std::vector<GpuProcess>())) {
        processes.push_back({{"pid", process.pid}, {"memory_bytes", or_null(process.memory_bytes)}});
    }
    return {{"index", gpu.index},
            {"name", utf8_text(gpu.name)},
            {"problem", gpu.problem.empty() ? Json() : Json(utf8_text(gpu.problem))},
            {"busy", or_null(gpu.busy)},
            {"memory_busy", or_null(gpu.memory_busy)},
            {"memory_total_bytes", or_null(gpu.memory_total)},
            {"memory_used_bytes", or_null(gpu.memory_used)},
            {"power_watts", or_null(gpu.power_watts)},
            {"power_limit_watts", or_null(gpu.power_limit_watts)},
            {"power_limit_max_watts", or_null(gpu.power_limit_max_watts)},
            {"celsius", or_null(gpu.celsius)},
            {"sm_mhz", or_null(gpu.sm_mhz)},
            {"sm_max_mhz", or_null(gpu.sm_max_mhz)},
            {"clock_reasons", gpu.clock_reasons ? Json(clock_reason_names(*gpu.clock_reasons)) : Json()},
            {"throttled", gpu.clock_reasons ? Json(is_throttled(*gpu.clock_reasons)) : Json()},
            {"pcie", link(gpu.pcie)},
            {"pcie_max", link(gpu.pcie_max)},
            {"pcie_gpu", link(gpu)},
            {"pcie_received_bytes_per_second", or_null(gpu.pcie_received_bytes)},
            {"pcie_sent_bytes_per_second", or_null(gpu.pcie_sent_bytes)},
            {"ecc", or_null(gpu.ecc)},
            {"ecc_uncorrected_errors", or_null(gpu.ecc_uncorrected)},
            {"ecc_corrected_errors", or_null(gpu.ecc_corrected)},
            {"remap_pending", or_null(gpu.remap_pending)},
            {"remap_failed", or_null(gpu.remap_failed)},
            {"persistence", or_null(gpu.persistence)},
            {"mig", or_null(gpu.mig)},
            {"processes", gpu.processes ? (processes.is_null() ? Json::array() : processes) : Json()}};
}

Json run_json(const LiveRun& run) {
    const auto of_tail = [&](auto RunTail::*member) { return run.tail ? Json((*run.tail).*member) : Json(); };
    return {{"pid", run.pid},
            {"path", utf8_text(run.path)},
            {"step", of_tail(&RunTail::step)},
            {"epoch", of_tail(&RunTail::epoch)},
            {"steps", of_tail(&RunTail::steps)},
            {"step_seconds", of_tail(&RunTail::step_seconds)},
            {"wait", of_tail(&RunTail::wait_share)},
            {"images_per_second", run.tail ? or_null(run.tail->images_per_second) : Json()},
            {"loss", run.tail ? or_null(run.tail->loss) : Json()},
            {"ready_batches", run.tail ? or_null(run.tail->ready_batches) : Json()},
            {"written_seconds_ago", or_null(run.written_seconds)}};
}

Json process_json(const TopProcess& process) {
    const ProcessRates& rates = process.rates;
    return {{"pid", rates.pid},
            {"name", utf8_text(rates.name)},
            {"command", utf8_text(process.command)},
            {"state", std::string(1, rates.state)},
            {"threads", rates.threads},
            {"cores", rates.cores},
            {"rss_bytes", rates.rss_bytes},
            {"read_bytes_per_second", or_null(rates.read_bytes)}};
}

Json disk_json(const DiskRates& disk) {
    return {{"name", utf8_text(disk.name)},
            {"read_bytes_per_second", disk.read_bytes},
            {"write_bytes_per_second", disk.write_bytes},
            {"reads_per_second", disk.reads},
            {"writes_per_second", disk.writes},
            {"read_ms", or_null(disk.read_ms)},
            {"write_ms", or_null(disk.write_ms)},
            {"busy", disk.busy}};
}

Json network_json(const NetworkRates& rates) {
    return {{"name", utf8_text(rates.name)},
            {"received_bytes_per_second", rates.received_bytes},
            {"sent_bytes_per_second", rates.sent_bytes},
            {"lost_packets_per_second", rates.lost}};
}

template <typename Item>
Json list(const std::vector<Item>& items, Json (*to_json)(const Item&)) {
    Json array = Json::array();
    for (const Item& item : items) {
        array.push_back(to_json(item));
    }
    return array;
}

}  // namespace

Json top_json(const TopView& view) {
    return {{"host",
             {{"name", utf8_text(view.host_name)},
              {"container", view.container},
              {"seconds", view.host.seconds},
              {"gpu_problem", view.gpu_problem.empty() ? Json() : Json(utf8_text(view.gpu_problem))}}},
            {"cpu", cpu_json(view)},
            {"memory", memory_json(view.host)},
            {"disks", list(view.host.disks, disk_json)},
            {"network", list(view.host.network, network_json)},
            {"gpus", list(view.host.gpus, gpu_json)},
            {"runs", list(view.runs, run_json)},
            {"processes", list(view.processes, process_json)}};
}

}  // namespace stoker::cli
