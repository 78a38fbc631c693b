// Declares the part of NVML's interface that is called. It is stable: names with a version never change. All functions
// return 0 for success; any other status means that the value is absent.
#include "stoker/monitor/nvml.h"

#include <dlfcn.h>

#include <filesystem>
#include <fmt/format.h>
#include <limits>
#include <link.h>
#include <system_error>

#include "stoker/monitor/counter_text.h"

namespace stoker {

using NvmlDevice = void*;

struct NvmlUtilization {
    unsigned gpu = 0;  // percent
    unsigned memory = 0;
};

struct NvmlMemory {
    unsigned long long total = 0;  // bytes
    unsigned long long free = 0;
    unsigned long long used = 0;
};

// nvmlProcessInfo_v2_t, which nvmlDeviceGetComputeRunningProcesses_v2 and later writes.
struct NvmlProcess {
    unsigned pid = 0;
    unsigned long long memory = 0;  // all ones if it is not known
    unsigned gpu_instance = 0;
    unsigned compute_instance = 0;
};

struct NvmlPci {
    char legacy_bus_id[16] = "";
    unsigned domain = 0;
    unsigned bus = 0;
    unsigned device = 0;
    unsigned device_id = 0;
    unsigned subsystem_id = 0;
    char bus_id[32] = "";
};

// Functions of one shape share a type: one number of a device, one with a selector before it, two of a device.
using GetNumber = int(NvmlDevice, unsigned*);
using GetSelected = int(NvmlDevice, unsigned selector, unsigned*);
using GetPair = int(NvmlDevice, unsigned*, unsigned*);

struct NvmlFunctions {
    int (*init)() = nullptr;
    int (*shutdown)() = nullptr;
    const char* (*error)(int) = nullptr;
    int (*driver)(char*, unsigned) = nullptr;
    int (*count)(unsigned*) = nullptr;
    int (*device)(unsigned, NvmlDevice*) = nullptr;
    int (*device_of_uuid)(const char*, NvmlDevice*) = nullptr;
    int (*name)(NvmlDevice, char*, unsigned) = nullptr;
    int (*utilization)(NvmlDevice, NvmlUtilization*) = nullptr;
    int (*memory)(NvmlDevice, NvmlMemory*) = nullptr;
    GetNumber* power = nullptr;  // mW
    GetNumber* power_limit = nullptr;
    GetPair* power_limits = nullptr;  // that a user may set: least and most
    GetSelected* temperature = nullptr;
    GetSelected* clock = nullptr;
    GetSelected* max_clock = nullptr;
    int (*clock_reasons)(NvmlDevice, unsigned long long*) = nullptr;
    GetNumber* generation = nullptr;
    GetNumber* width = nullptr;
    GetNumber* max_generation = nullptr;
    GetNumber* max_width = nullptr;
    GetNumber* gpu_generation = nullptr;
    int (*pci)(NvmlDevice, NvmlPci*) = nullptr;
    GetSelected* throughput = nullptr;
    GetPair* ecc = nullptr;
    int (*ecc_errors)(NvmlDevice, unsigned type, unsigned counter, unsigned long long*) = nullptr;
    int (*remapped)(NvmlDevice, unsigned* corrected, unsigned* uncorrected, unsigned* pending,
                    unsigned* failed) = nullptr;
    GetNumber* persistence = nullptr;
    GetPair* mig = nullptr;
    int (*processes)(NvmlDevice, unsigned*, NvmlProcess*) = nullptr;
};

namespace {

constexpr int kNotSupported = 3;         // NVML_ERROR_NOT_SUPPORTED
constexpr int kNoPermission = 4;         // NVML_ERROR_NO_PERMISSION
constexpr unsigned kSmClock = 1;         // NVML_CLOCK_SM
constexpr unsigned kGpuTemperature = 0;  // NVML_TEMPERATURE_GPU
constexpr unsigned kSent = 0;            // NVML_PCIE_UTIL_TX_BYTES
constexpr unsigned kReceived = 1;
constexpr unsigned kCorrected = 0;  // NVML_MEMORY_ERROR_TYPE_CORRECTED
constexpr unsigned kUncorrected = 1;
constexpr unsigned kSinceLoad = 0;  // NVML_VOLATILE_ECC

template <typename Function>
void find(void* library, Function*& function, std::initializer_list<const char*> names) {
    for (const char* name : names) {
        if (function == nullptr) {
            function = reinterpret_cast<Function*>(dlsym(library, name));
        }
    }
}

// Newer names first. Old drivers lack some functions, whose values are then absent. The processes have a _v3 with the
// entries of _v2, but drivers 535.43 to 535.86 write larger ones there.
NvmlFunctions find_functions(void* library) {
    NvmlFunctions f;
    find(library, f.init, {"nvmlInit_v2"});
    find(library, f.shutdown, {"nvmlShutdown"});
    find(library, f.error, {"nvmlErrorString"});
    find(library, f.driver, {"nvmlSystemGetDriverVersion"});
    find(library, f.count, {"nvmlDeviceGetCount_v2"});
    find(library, f.device, {"nvmlDeviceGetHandleByIndex_v2"});
    find(library, f.device_of_uuid, {"nvmlDeviceGetHandleByUUID"});
    find(library, f.name, {"nvmlDeviceGetName"});
    find(library, f.utilization, {"nvmlDeviceGetUtilizationRates"});
    find(library, f.memory, {"nvmlDeviceGetMemoryInfo"});
    find(library, f.power, {"nvmlDeviceGetPowerUsage"});
    find(library, f.power_limit, {"nvmlDeviceGetEnforcedPowerLimit"});
    find(library, f.power_limits, {"nvmlDeviceGetPowerManagementLimitConstraints"});
    find(library, f.temperature, {"nvmlDeviceGetTemperature"});
    find(library, f.clock, {"nvmlDeviceGetClockInfo"});
    find(library, f.max_clock, {"nvmlDeviceGetMaxClockInfo"});
    find(library, f.clock_reasons,
         {"nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"});
    find(library, f.generation, {"nvmlDeviceGetCurrPcieLinkGeneration"});
    find(library, f.width, {"nvmlDeviceGetCurrPcieLinkWidth"});
    find(library, f.max_generation, {"nvmlDeviceGetMaxPcieLinkGeneration"});
    find(library, f.max_width, {"nvmlDeviceGetMaxPcieLinkWidth"});
    find(library, f.gpu_generation, {"nvmlDeviceGetGpuMaxPcieLinkGeneration"});
    find(library, f.pci, {"nvmlDeviceGetPciInfo_v3"});
    find(library, f.throughput, {"nvmlDeviceGetPcieThroughput"});
    find(library, f.ecc, {"nvmlDeviceGetEccMode"});
    find(library, f.ecc_errors, {"nvmlDeviceGetTotalEccErrors"});
    find(library, f.remapped, {"nvmlDeviceGetRemappedRows"});
    find(library, f.persistence, {"nvmlDeviceGetPersistenceMode"});
    find(library, f.mig, {"nvmlDeviceGetMigMode"});
    find(library, f.processes, {"nvmlDeviceGetComputeRunningProcesses_v2", "nvmlDeviceGetComputeRunningProcesses_v3"});
    return f;
}

// The value that `function` writes after `arguments`; empty if the driver lacks it or refuses.
template <typename Value, typename Function, typename... Arguments>
std::optional<Value> ask(Function* function, Arguments... arguments) {
    Value value{};
    return function != nullptr && function(arguments..., &value) == 0 ? std::optional(value) : std::nullopt;
}

template <typename Value>
std::optional<std::int64_t> integer(const std::optional<Value>& value) {
    return value ? std::optional(static_cast<std::int64_t>(*value)) : std::nullopt;
}

std::optional<double> scaled(std::optional<unsigned> value, double scale) {
    return value ? std::optional(scale * *value) : std::nullopt;
}

std::optional<bool> is_on(std::optional<unsigned> value) {
    return value ? std::optional(*value != 0) : std::nullopt;
}

// ECC and MIG have a mode now and one after the next reset.
std::optional<bool> mode_now(GetPair* function, NvmlDevice device) {
    unsigned now = 0;
    unsigned pending = 0;
    return function != nullptr && function(device, &now, &pending) == 0 ? std::optional(now != 0) : std::nullopt;
}

std::optional<PcieLink> link(std::optional<unsigned> generation, std::optional<unsigned> width) {
    if (!generation || !width) {
        return std::nullopt;
    }
    return PcieLink{.generation = *generation, .width = *width};
}

std::optional<std::vector<GpuProcess>> processes_of(const NvmlFunctions& nvml, NvmlDevice device) {
    std::vector<NvmlProcess> found(256);
    auto count = static_cast<unsigned>(found.size());
    if (nvml.processes == nullptr || nvml.processes(device, &count, found.data()) != 0 || count > found.size()) {
        return std::nullopt;
    }
    found.resize(count);
    std::vector<GpuProcess> processes;
    for (const NvmlProcess& process : found) {
        constexpr auto kUnknown = std::numeric_limits<unsigned long long>::max();
        processes.push_back({.pid = process.pid});
        if (process.memory != kUnknown) {
            processes.back().memory_bytes = static_cast<std::int64_t>(process.memory);
        }
    }
    return processes;
}

std::string error_text(const NvmlFunctions& nvml, int status) {
    const char* text = nvml.error != nullptr ? nvml.error(status) : nullptr;
    return text != nullptr ? text : fmt::format("error {}", status);
}

// The lanes of the GPU alone: NVML only knows the lesser of GPU and slot. The kernel says 255 if it does not know.
std::optional<std::int64_t> gpu_width(const NvmlFunctions& nvml, NvmlDevice device, const std::string& root) {
    constexpr std::int64_t kMost = 32;
    const auto pci = ask<NvmlPci>(nvml.pci, device);
    const auto width =
        pci ? read_counter_number(fmt::format("{}/sys/bus/pci/devices/{:04x}:{:02x}:{:02x}.0/max_link_width", root,
                                              pci->domain, pci->bus, pci->device))
            : std::nullopt;
    return width && *width <= kMost ? width : std::nullopt;
}

void read_pcie(const NvmlFunctions& nvml, NvmlDevice device, const std::string& root, GpuCounters& gpu) {
    gpu.pcie = link(ask<unsigned>(nvml.generation, device), ask<unsigned>(nvml.width, device));
    gpu.pcie_max = link(ask<unsigned>(nvml.max_generation, device), ask<unsigned>(nvml.max_width, device));
    gpu.pcie_gpu_generation = integer(ask<unsigned>(nvml.gpu_generation, device));
    gpu.pcie_gpu_width = gpu_width(nvml, device, root);
}

void read_memory_errors(const NvmlFunctions& nvml, NvmlDevice device, GpuCounters& gpu) {
    gpu.ecc = mode_now(nvml.ecc, device);
    gpu.ecc_uncorrected = integer(ask<unsigned long long>(nvml.ecc_errors, device, kUncorrected, kSinceLoad));
    gpu.ecc_corrected = integer(ask<unsigned long long>(nvml.ecc_errors, device, kCorrected, kSinceLoad));
    unsigned rows = 0;
    unsigned pending = 0;
    unsigned failed = 0;
    if (nvml.remapped != nullptr && nvml.remapped(device, &rows, &rows, &pending, &failed) == 0) {
        gpu.remap_pending = pending != 0;
        gpu.remap_failed = failed != 0;
    }
}

void set_clocks(const NvmlFunctions& nvml, NvmlDevice device, GpuCounters& gpu) {
    gpu.celsius = integer(ask<unsigned>(nvml.temperature, device, kGpuTemperature));
    gpu.sm_mhz = integer(ask<unsigned>(nvml.clock, device, kSmClock));
    gpu.sm_max_mhz = integer(ask<unsigned>(nvml.max_clock, device, kSmClock));
    gpu.clock_reasons = ask<unsigned long long>(nvml.clock_reasons, device);
}

// "GPU-" and the bytes in hexadecimal, in groups of 4, 2, 2, 2 and 6.
std::string uuid_text(std::string_view bytes) {
    std::string text = "GPU";
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        const bool begins_group = i == 0 || i == 4 || i == 6 || i == 8 || i == 10;
        text += fmt::format("{}{:02x}", begins_group ? "-" : "", static_cast<unsigned char>(bytes[i]));
    }
    return text;
}

GpuCounters read_gpu(const NvmlFunctions& nvml, NvmlDevice device, const std::string& root, bool pcie_throughput) {
    GpuCounters gpu;
    char name[96] = "";
    const int status = nvml.name != nullptr ? nvml.name(device, name, sizeof name) : kNotSupported;
    if (status != 0 && status != kNotSupported) {
        gpu.problem = error_text(nvml, status);
        return gpu;
    }
    name[sizeof name - 1] = '\0';
    gpu.name = name;
    if (const auto used = ask<NvmlUtilization>(nvml.utilization, device)) {
        gpu.busy = 0.01 * used->gpu;
        gpu.memory_busy = 0.01 * used->memory;
    }
    if (const auto memory = ask<NvmlMemory>(nvml.memory, device)) {
        gpu.memory_total = static_cast<std::int64_t>(memory->total);
        gpu.memory_used = static_cast<std::int64_t>(memory->used);
    }
    gpu.power_watts = scaled(ask<unsigned>(nvml.power, device), 1e-3);
    gpu.power_limit_watts = scaled(ask<unsigned>(nvml.power_limit, device), 1e-3);
    unsigned least = 0;
    unsigned most = 0;
    if (nvml.power_limits != nullptr && nvml.power_limits(device, &least, &most) == 0) {
        gpu.power_limit_max_watts = 1e-3 * most;
    }
    set_clocks(nvml, device, gpu);
    read_pcie(nvml, device, root, gpu);
    if (pcie_throughput) {  // in KB/s
        gpu.pcie_received_bytes = scaled(ask<unsigned>(nvml.throughput, device, kReceived), 1e3);
        gpu.pcie_sent_bytes = scaled(ask<unsigned>(nvml.throughput, device, kSent), 1e3);
    }
    read_memory_errors(nvml, device, gpu);
    gpu.persistence = is_on(ask<unsigned>(nvml.persistence, device));
    gpu.mig = mode_now(nvml.mig, device);
    gpu.processes = processes_of(nvml, device);
    return gpu;
}

// The driver's files are named by their version: libnvidia-ml.so.1 is a link to libnvidia-ml.so.570.86.15.
std::string version_of_file(void* library) {
    link_map* map = nullptr;
    if (dlinfo(library, RTLD_DI_LINKMAP, &map) != 0) {
        return "";
    }
    std::error_code error;
    const std::string name = std::filesystem::canonical(map->l_name, error).filename();
    const std::string start = "libnvidia-ml.so.";
    const std::string version = name.starts_with(start) ? name.substr(start.size()) : "";
    return version.find('.') != std::string::npos ? version : "";
}

}  // namespace

// The library stays open: the driver may have started threads in it.
Nvml::Nvml(const std::string& library, const std::string& root) : root_(root) {
    void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
        problem_ = fmt::format("no NVIDIA driver ({} was not found)", library);
        return;
    }
    installed_ = true;
    file_version_ = version_of_file(handle);
    auto functions = std::make_unique<NvmlFunctions>(find_functions(handle));
    if (functions->init == nullptr || functions->count == nullptr || functions->device == nullptr) {
        problem_ = fmt::format("{} is not NVIDIA's management library", library);
        return;
    }
    if (const int status = functions->init(); status != 0) {
        problem_ = fmt::format("NVML does not start: {}", error_text(*functions, status));
        return;
    }
    functions_ = std::move(functions);
}

Nvml::~Nvml() {
    if (functions_ && functions_->shutdown != nullptr) {
        functions_->shutdown();
    }
}

std::string Nvml::driver_version() const {
    char text[96] = "";
    if (!functions_ || functions_->driver == nullptr || functions_->driver(text, sizeof text) != 0) {
        return file_version_;
    }
    text[sizeof text - 1] = '\0';
    return text;
}

std::vector<GpuCounters> Nvml::read(bool pcie_throughput) const {
    std::vector<GpuCounters> gpus;
    const unsigned count = functions_ ? ask<unsigned>(functions_->count).value_or(0) : 0;
    for (unsigned i = 0; i < count; ++i) {
        NvmlDevice device = nullptr;
        const int status = functions_->device(i, &device);
        if (status == kNoPermission) {
            continue;  // another user's, or one that this container may not open
        }
        gpus.push_back(status == 0 ? read_gpu(*functions_, device, root_, pcie_throughput)
                                   : GpuCounters{.problem = error_text(*functions_, status)});
        gpus.back().index = static_cast<int>(i);
    }
    return gpus;
}

std::optional<GpuCounters> Nvml::read_clocks(std::string_view uuid) const {
    const std::string text = uuid_text(uuid);
    const auto device = functions_ ? ask<NvmlDevice>(functions_->device_of_uuid, text.c_str()) : std::nullopt;
    if (!device) {
        return std::nullopt;
    }
    GpuCounters gpu;
    set_clocks(*functions_, *device, gpu);
    return gpu;
}

}  // namespace stoker
