// A stand-in for libnvidia-ml.so.1 with FAKE_GPUS made-up GPUs (default 1). FAKE_NVML changes it: "broken" does not
// start, "silent" reports nothing but names, "hot" is throttled.
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
struct Process {
    unsigned pid;
    unsigned long long memory;
    unsigned gpu_instance, compute_instance;
};

}  // namespace

extern "C" {

int nvmlInit_v2() {
    return is("broken") ? 9 : 0;
}
int nvmlShutdown() {
    return 0;
}
const char* nvmlErrorString(int status) {
    return status == 9 ? "Driver Not Loaded" : "Unknown Error";
}
int nvmlSystemGetDriverVersion(char* text, unsigned length) {
    std::strncpy(text, "570.86.15", length);
    return 0;
}
int nvmlSystemGetCudaDriverVersion_v2(int* version) {
    *version = 12080;
    return 0;
}
int nvmlDeviceGetCount_v2(unsigned* count) {
    const char* text = std::getenv("FAKE_GPUS");
    *count = text != nullptr ? static_cast<unsigned>(std::atoi(text)) : 1;
    return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
    *device = reinterpret_cast<void*>(static_cast<std::size_t>(index) + 1);
    return 0;
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
    return give(out, 700'000);
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
int nvmlDeviceGetComputeRunningProcesses_v3(void*, unsigned* count, Process* out) {
    out[0] = {4242, 40ULL << 30, 0, 0};
    out[1] = {4343, ~0ULL, 0, 0};
    return give(count, 2);
}

}  // extern "C"
