// A stand-in for libnvidia-ml.so.1 with FAKE_GPUS made-up GPUs (default 1). FAKE_NVML changes it: "broken" does not
// start, "silent" reports nothing but names, "hot" is throttled and has bad memory, "lost" keeps no GPU but the first
// one, "denied" keeps the first one for another user, "limited" has less power and a narrower slot than it could have.
#include <cstdlib>
#include <cstring>

namespace {

constexpr int kNotSupported = 3;

bool is(const char* kind) {
    const char* text = std::getenv("FAKE_NVML");
    return text != nullptr && std::strcmp(text, kind) == 0;
}

int give(unsigned* out, unsigned value) {
    *out = value;
    return is("silent") ? kNotSupported : 0;
}

int give(unsigned long long* out, unsigned long long value) {
    *out = value;
    return is("silent") ? kNotSupported : 0;
}

struct Utilization {
    unsigned gpu, memory;
};
struct Memory {
    unsigned long long total, free, used;
};
struct Pci {
    char legacy_bus_id[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
};
struct Process {
    unsigned pid;
    unsigned long long memory;
    unsigned gpu_instance, compute_instance;
};

}  // namespace

extern "C" {

// NOLINTBEGIN(readability-identifier-naming): NVIDIA's names

int nvmlInit_v2() {
    return is("broken") ? 9 : 0;
}
int nvmlShutdown() {
    return 0;
}
const char* nvmlErrorString(int status) {
    return status == 9 ? "Driver Not Loaded" : status == 15 ? "GPU is lost" : "Unknown Error";
}
int nvmlSystemGetDriverVersion(char* text, unsigned length) {
    std::strncpy(text, "570.86.15", length);
    return 0;
}
int nvmlDeviceGetCount_v2(unsigned* count) {
    const char* text = std::getenv("FAKE_GPUS");
    *count = text != nullptr ? static_cast<unsigned>(std::atoi(text)) : 1;
    return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
    *device = reinterpret_cast<void*>(static_cast<std::size_t>(index) + 1);
    return is("lost") && index > 0 ? 15 : is("denied") && index == 0 ? 4 : 0;
}
int nvmlDeviceGetHandleByUUID(const char* uuid, void** device) {
    *device = reinterpret_cast<void*>(1);
    return std::strcmp(uuid, "GPU-00010203-0405-0607-0809-0a0b0c0d0eff") == 0 ? 0 : 6;  // not found
}
int nvmlDeviceGetName(void*, char* text, unsigned length) {
    std::strncpy(text, "Made-up H100", length);
    return 0;
}
int nvmlDeviceGetUtilizationRates(void*, Utilization* out) {
    *out = {87, 40};
    return is("silent") ? kNotSupported : 0;
}
int nvmlDeviceGetMemoryInfo(void*, Memory* out) {
    *out = {80ULL << 30, 20ULL << 30, 60ULL << 30};
    return is("silent") ? kNotSupported : 0;
}
int nvmlDeviceGetPowerUsage(void*, unsigned* out) {
    return give(out, 651'500);
}
int nvmlDeviceGetEnforcedPowerLimit(void*, unsigned* out) {
    return give(out, is("limited") ? 600'000 : 700'000);
}
int nvmlDeviceGetPowerManagementLimitConstraints(void*, unsigned* least, unsigned* most) {
    *least = 200'000;
    return give(most, 700'000);
}
int nvmlDeviceGetTemperature(void*, unsigned sensor, unsigned* out) {
    return sensor == 0 ? give(out, is("hot") ? 88 : 61) : kNotSupported;
}
int nvmlDeviceGetClockInfo(void*, unsigned clock, unsigned* out) {
    return clock == 1 ? give(out, is("hot") ? 1200 : 1755) : kNotSupported;
}
int nvmlDeviceGetMaxClockInfo(void*, unsigned clock, unsigned* out) {
    return clock == 1 ? give(out, 1980) : kNotSupported;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void*, unsigned long long* out) {
    return give(out, is("hot") ? 0x28 : 0x4);
}
int nvmlDeviceGetCurrPcieLinkGeneration(void*, unsigned* out) {
    return give(out, is("hot") ? 3 : 5);
}
int nvmlDeviceGetCurrPcieLinkWidth(void*, unsigned* out) {
    return give(out, is("hot") ? 8 : 16);
}
int nvmlDeviceGetMaxPcieLinkGeneration(void*, unsigned* out) {
    return give(out, 5);
}
int nvmlDeviceGetMaxPcieLinkWidth(void*, unsigned* out) {
    return give(out, 16);
}
int nvmlDeviceGetGpuMaxPcieLinkGeneration(void*, unsigned* out) {
    return give(out, is("limited") ? 6 : 5);
}
int nvmlDeviceGetPciInfo_v3(void*, Pci* out) {
    out->domain = 0;
    out->bus = 0x6b;
    out->device = 0;
    std::strncpy(out->bus_id, "00000000:6B:00.0", sizeof out->bus_id);
    return is("silent") ? kNotSupported : 0;
}
int nvmlDeviceGetRemappedRows(void*, unsigned* corrected, unsigned* uncorrected, unsigned* pending, unsigned* failed) {
    *corrected = 1;
    *uncorrected = 1;
    *failed = 0;
    return give(pending, is("hot") ? 1 : 0);
}
int nvmlDeviceGetPcieThroughput(void*, unsigned counter, unsigned* out) {
    return give(out, counter == 1 ? 3'000'000 : 250'000);  // KB/s, 1: received
}
int nvmlDeviceGetEccMode(void*, unsigned* now, unsigned* pending) {
    *pending = 1;
    return give(now, is("hot") ? 0 : 1);
}
int nvmlDeviceGetTotalEccErrors(void*, unsigned type, unsigned counter, unsigned long long* out) {
    return counter == 0 ? give(out, type == 1 ? (is("hot") ? 3ULL : 0ULL) : 2ULL) : kNotSupported;
}
int nvmlDeviceGetPersistenceMode(void*, unsigned* out) {
    return give(out, is("hot") ? 0 : 1);
}
int nvmlDeviceGetComputeRunningProcesses_v2(void*, unsigned* count, Process* out) {
    out[0] = {4242, 40ULL << 30, 0, 0};
    out[1] = {4343, ~0ULL, 0, 0};
    return give(count, 2);
}
// As drivers 535.43 to 535.86 wrote them: 40 bytes for each process.
int nvmlDeviceGetComputeRunningProcesses_v3(void*, unsigned* count, void* out) {
    const unsigned long long entries[10] = {4242, 40ULL << 30, 0, 0, 0, 4343, ~0ULL, 0, 0, 0};
    std::memcpy(out, entries, sizeof entries);
    return give(count, 2);
}

// NOLINTEND(readability-identifier-naming)

}  // extern "C"
