// The declarations of what is called of NVML's interface, which is stable: names with a version never change. All
// functions return 0 for success; any other status means that the value is absent.
#include "stoker/monitor/nvml.h"

#include <dlfcn.h>

#include <fmt/format.h>
#include <limits>

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

struct NvmlProcess {
    unsigned pid = 0;
    unsigned long long memory = 0;  // all ones if it is not known
    unsigned gpu_instance = 0;
    unsigned compute_instance = 0;
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
    int (*cuda)(int*) = nullptr;
    int (*count)(unsigned*) = nullptr;
    int (*device)(unsigned, NvmlDevice*) = nullptr;
    int (*name)(NvmlDevice, char*, unsigned) = nullptr;
    int (*utilization)(NvmlDevice, NvmlUtilization*) = nullptr;
    int (*memory)(NvmlDevice, NvmlMemory*) = nullptr;
    GetNumber* power = nullptr;  // mW
    GetNumber* power_limit = nullptr;
    GetSelected* temperature = nullptr;
    GetSelected* clock = nullptr;
    GetSelected* max_clock = nullptr;
    int (*clock_reasons)(NvmlDevice, unsigned long long*) = nullptr;
    GetNumber* generation = nullptr;
    GetNumber* width = nullptr;
    GetNumber* max_generation = nullptr;
    GetNumber* max_width = nullptr;
    GetSelected* throughput = nullptr;
    GetPair* ecc = nullptr;
    int (*ecc_errors)(NvmlDevice, unsigned type, unsigned counter, unsigned long long*) = nullptr;
    GetNumber* persistence = nullptr;
    GetPair* mig = nullptr;
    int (*processes)(NvmlDevice, unsigned*, NvmlProcess*) = nullptr;
};

namespace {

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

// Newer names first. Old drivers lack some functions, whose values are then absent.
NvmlFunctions find_functions(void* library) {
    NvmlFunctions f;
    find(library, f.init, {"nvmlInit_v2"});
    find(library, f.shutdown, {"nvmlShutdown"});
    find(library, f.error, {"nvmlErrorString"});
    find(library, f.driver, {"nvmlSystemGetDriverVersion"});
    find(library, f.cuda, {"nvmlSystemGetCudaDriverVersion_v2", "nvmlSystemGetCudaDriverVersion"});
    find(library, f.count, {"nvmlDeviceGetCount_v2"});
    find(library, f.device, {"nvmlDeviceGetHandleByIndex_v2"});
    find(library, f.name, {"nvmlDeviceGetName"});
    find(library, f.utilization, {"nvmlDeviceGetUtilizationRates"});
    find(library, f.memory, {"nvmlDeviceGetMemoryInfo"});
    find(library, f.power, {"nvmlDeviceGetPowerUsage"});
    find(library, f.power_limit, {"nvmlDeviceGetEnforcedPowerLimit"});
    find(library, f.temperature, {"nvmlDeviceGetTemperature"});
    find(library, f.clock, {"nvmlDeviceGetClockInfo"});
    find(library, f.max_clock, {"nvmlDeviceGetMaxClockInfo"});
    find(library, f.clock_reasons,
         {"nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"});
    find(library, f.generation, {"nvmlDeviceGetCurrPcieLinkGeneration"});
    find(library, f.width, {"nvmlDeviceGetCurrPcieLinkWidth"});
    find(library, f.max_generation, {"nvmlDeviceGetMaxPcieLinkGeneration"});
    find(library, f.max_width, {"nvmlDeviceGetMaxPcieLinkWidth"});
    find(library, f.throughput, {"nvmlDeviceGetPcieThroughput"});
    find(library, f.ecc, {"nvmlDeviceGetEccMode"});
    find(library, f.ecc_errors, {"nvmlDeviceGetTotalEccErrors"});
    find(library, f.persistence, {"nvmlDeviceGetPersistenceMode"});
    find(library, f.mig, {"nvmlDeviceGetMigMode"});
    find(library, f.processes, {"nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2"});
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

GpuCounters read_gpu(const NvmlFunctions& nvml, NvmlDevice device, bool pcie_throughput) {
    GpuCounters gpu;
    char name[96] = "";
    if (nvml.name != nullptr && nvml.name(device, name, sizeof name) == 0) {
        name[sizeof name - 1] = '\0';
        gpu.name = name;
    }
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
    gpu.celsius = integer(ask<unsigned>(nvml.temperature, device, kGpuTemperature));
    gpu.sm_mhz = integer(ask<unsigned>(nvml.clock, device, kSmClock));
    gpu.sm_max_mhz = integer(ask<unsigned>(nvml.max_clock, device, kSmClock));
    gpu.clock_reasons = ask<unsigned long long>(nvml.clock_reasons, device);
    gpu.pcie = link(ask<unsigned>(nvml.generation, device), ask<unsigned>(nvml.width, device));
    gpu.pcie_max = link(ask<unsigned>(nvml.max_generation, device), ask<unsigned>(nvml.max_width, device));
    if (pcie_throughput) {  // in KB/s
        gpu.pcie_received_bytes = scaled(ask<unsigned>(nvml.throughput, device, kReceived), 1e3);
        gpu.pcie_sent_bytes = scaled(ask<unsigned>(nvml.throughput, device, kSent), 1e3);
    }
    gpu.ecc = mode_now(nvml.ecc, device);
    gpu.ecc_uncorrected = integer(ask<unsigned long long>(nvml.ecc_errors, device, kUncorrected, kSinceLoad));
    gpu.ecc_corrected = integer(ask<unsigned long long>(nvml.ecc_errors, device, kCorrected, kSinceLoad));
    gpu.persistence = is_on(ask<unsigned>(nvml.persistence, device));
    gpu.mig = mode_now(nvml.mig, device);
    gpu.processes = processes_of(nvml, device);
    return gpu;
}

}  // namespace

// The library stays open: the driver may have started threads in it.
Nvml::Nvml(const std::string& library) {
    void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
        problem_ = fmt::format("no NVIDIA driver ({} was not found)", library);
        return;
    }
    installed_ = true;
    auto functions = std::make_unique<NvmlFunctions>(find_functions(handle));
    if (functions->init == nullptr || functions->count == nullptr || functions->device == nullptr) {
        problem_ = fmt::format("{} is not NVIDIA's management library", library);
        return;
    }
    if (const int status = functions->init(); status != 0) {
        const char* text = functions->error != nullptr ? functions->error(status) : nullptr;
        problem_ = fmt::format("NVML does not start: {}", text != nullptr ? text : fmt::format("error {}", status));
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
        return "";
    }
    text[sizeof text - 1] = '\0';
    return text;
}

int Nvml::cuda_version() const {
    return functions_ ? ask<int>(functions_->cuda).value_or(0) : 0;
}

std::vector<GpuCounters> Nvml::read(bool pcie_throughput) const {
    std::vector<GpuCounters> gpus;
    const unsigned count = functions_ ? ask<unsigned>(functions_->count).value_or(0) : 0;
    for (unsigned i = 0; i < count; ++i) {
        if (const auto device = ask<NvmlDevice>(functions_->device, i)) {  // none that this user may not open
            gpus.push_back(read_gpu(*functions_, *device, pcie_throughput));
            gpus.back().index = static_cast<int>(i);
        }
    }
    return gpus;
}

}  // namespace stoker
