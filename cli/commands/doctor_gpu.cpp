// Asks the NVIDIA driver itself, opened at run time, so that the answer is the same in a build
// without CUDA and on a machine without a driver.
#include <dlfcn.h>

#include <cstdlib>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fstream>

#include "cli/commands/doctor.h"
#include "stoker/cuda/cuda_device.h"

namespace stoker::cli {
namespace {

// What the driver's library answers; CUresult and CUdevice are ints, 0 is success.
struct Driver {
    bool there = false;
    std::string problem;  // why there is no device to use; empty where there is
    int version = 0;      // of CUDA, 1000 * major + 10 * minor
    std::vector<std::string> devices;
};

template <typename Function>
Function* symbol(void* library, const char* name) {
    return reinterpret_cast<Function*>(dlsym(library, name));
}

Driver ask_driver() {
    Driver driver;
    void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);  // stays open: the driver runs threads of its own
    if (library == nullptr) {
        driver.problem = "no NVIDIA driver (libcuda.so.1 was not found)";
        return driver;
    }
    driver.there = true;
    const auto init = symbol<int(unsigned)>(library, "cuInit");
    const auto version = symbol<int(int*)>(library, "cuDriverGetVersion");
    const auto count = symbol<int(int*)>(library, "cuDeviceGetCount");
    const auto name = symbol<int(char*, int, int)>(library, "cuDeviceGetName");
    const auto memory = symbol<int(std::size_t*, int)>(library, "cuDeviceTotalMem_v2");
    const auto error = symbol<int(int, const char**)>(library, "cuGetErrorString");
    if (!init || !version || !count || !name || !memory || !error) {
        driver.problem = "libcuda.so.1 is there but is no CUDA driver";
        return driver;
    }
    version(&driver.version);  // works without a device
    if (const int status = init(0); status != 0) {
        const char* text = nullptr;
        error(status, &text);
        driver.problem = fmt::format("the driver does not start: {}", text ? text : fmt::format("error {}", status));
        return driver;
    }
    int devices = 0;
    count(&devices);
    for (int i = 0; i < devices; ++i) {
        char text[256] = "";
        std::size_t bytes = 0;
        name(text, sizeof text, i);
        memory(&bytes, i);
        driver.devices.push_back(fmt::format("{} ({:.0f} GiB)", text, static_cast<double>(bytes) / (1 << 30)));
    }
    if (devices == 0) {
        driver.problem = "a driver, but no device";
    }
    return driver;
}

// "570.86.15" from the kernel module; empty where there is none.
std::string module_version() {
    std::ifstream file("/proc/driver/nvidia/version");
    std::string word;
    for (bool next = false; file >> word;) {
        if (next && word.find('.') != std::string::npos) {
            return word;
        }
        next = next || word == "Module";
    }
    return "";
}

std::string version_text(int version) {
    return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

Check check_driver(const Driver& driver) {
    if (!driver.problem.empty()) {
        return {.name = "gpu",
                .status = CheckStatus::warn,
                .found = driver.problem,
                .expected = "an NVIDIA GPU with its driver",
                .why = "without one training runs on the CPU: fine for small models and first steps",
                .fix = driver.there
                           ? "look at nvidia-smi and CUDA_VISIBLE_DEVICES; in a container start with --gpus all"
                           : "install the NVIDIA driver, or in a container start with --gpus all"};
    }
    const std::string module = module_version();
    return {.name = "gpu",
            .found = fmt::format("{}; driver {}CUDA {}", fmt::join(driver.devices, ", "),
                                 module.empty() ? "" : module + " for ", version_text(driver.version)),
            .expected = "an NVIDIA GPU with its driver",
            .why = "training runs there"};
}

// Within a major version newer CUDA code runs on older drivers; across majors it does not.
Check check_fit(const Driver& driver, const std::string& torch_cuda) {
    const int wanted = std::atoi(torch_cuda.c_str());
    const bool fits = driver.version / 1000 >= wanted;
    return {.name = "driver fits",
            .status = fits ? CheckStatus::ok : CheckStatus::fail,
            .found = fmt::format("driver for CUDA {}, LibTorch for CUDA {}", version_text(driver.version), torch_cuda),
            .expected = fmt::format("a driver for CUDA {}.0 or later", wanted),
            .why = "LibTorch finds no device with an older driver",
            .fix = fits ? "" : "update the NVIDIA driver, or install a torch built for the driver's CUDA"};
}

// The same for the CUDA runtime that this build's own CUDA code carries.
Check check_runtime(const Driver& driver, const std::string& runtime) {
    const int wanted = std::atoi(runtime.c_str());
    const bool fits = driver.version / 1000 >= wanted;
    return {
        .name = "driver fits build",
        .status = fits ? CheckStatus::ok : CheckStatus::fail,
        .found = fmt::format("driver for CUDA {}, Stoker built with CUDA {}", version_text(driver.version), runtime),
        .expected = fmt::format("a driver for CUDA {}.0 or later", wanted),
        .why = "page-locked batch memory is refused by an older driver",
        .fix = fits ? "" : "update the NVIDIA driver, or build with an older CUDA toolkit or STOKER_CUDA=OFF"};
}

Check check_build(bool device) {
    const bool built = cuda_built();
    return {
        .name = "CUDA code",
        .status = built || !device ? CheckStatus::ok : CheckStatus::warn,
        .found = built    ? "built in"
                 : device ? "not built"
                          : "not built, and not needed without a GPU",
        .expected = device ? "built in" : "built in where there is a GPU",
        .why = "page-locked batch memory needs it; without, copies to the GPU are slower and training waits for them",
        .fix = built || !device ? "" : "install the CUDA toolkit (nvcc) and build with STOKER_CUDA=ON"};
}

}  // namespace

std::vector<Check> check_gpu(const std::string& torch_cuda) {
    const Driver driver = ask_driver();
    const bool device = !driver.devices.empty();
    std::vector<Check> checks = {check_driver(driver)};
    if (driver.version > 0 && !torch_cuda.empty()) {
        checks.push_back(check_fit(driver, torch_cuda));
    }
    if (device && torch_cuda.empty()) {
        checks.push_back({.name = "LibTorch CUDA",
                          .status = CheckStatus::warn,
                          .found = "a LibTorch for the CPU",
                          .expected = "one built for CUDA",
                          .why = "the GPU stays idle",
                          .fix = "install torch from PyTorch's CUDA index and build with STOKER_TORCH=<its folder>"});
    }
    checks.push_back(check_build(device));
    if (const std::string runtime = STOKER_CUDA_RUNTIME; cuda_built() && driver.version > 0) {
        checks.push_back(check_runtime(driver, runtime));
    }
    return checks;
}

}  // namespace stoker::cli
