// Queries the NVIDIA driver through libcuda.so.1, opened at run time, so that builds without CUDA report the same.
#include <dlfcn.h>

#include <cstdlib>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <string_view>

#include "cli/build_facts.h"
#include "cli/commands/doctor.h"
#include "stoker/base/cuda_device.h"
#include "stoker/base/parse_number.h"
#include "stoker/monitor/host_settings.h"

namespace stoker::cli {
namespace {

// The driver's state.
struct Driver {
    bool installed = false;
    bool broken = false;  // it does not start
    std::string problem;  // why no device can be used; empty if one can
    int version = 0;      // of CUDA: 1000 * major + 10 * minor
    std::vector<std::string> devices;
};

template <typename Function>
Function* symbol(void* library, const char* name) {
    return reinterpret_cast<Function*>(dlsym(library, name));
}

// CUresult and CUdevice are ints; 0 is success.
Driver query_driver() {
    Driver driver;
    void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);  // stays open: the driver runs its own threads
    if (library == nullptr) {
        driver.problem = "no NVIDIA driver (libcuda.so.1 was not found)";
        return driver;
    }
    driver.installed = true;
    const auto init = symbol<int(unsigned)>(library, "cuInit");
    const auto version = symbol<int(int*)>(library, "cuDriverGetVersion");
    const auto count = symbol<int(int*)>(library, "cuDeviceGetCount");
    const auto name = symbol<int(char*, int, int)>(library, "cuDeviceGetName");
    const auto memory = symbol<int(std::size_t*, int)>(library, "cuDeviceTotalMem_v2");
    const auto error = symbol<int(int, const char**)>(library, "cuGetErrorString");
    if (!init || !version || !count || !name || !memory || !error) {
        driver.problem = "libcuda.so.1 is installed but is not a CUDA driver";
        return driver;
    }
    version(&driver.version);       // also without a device
    constexpr int kNoDevice = 100;  // CUDA_ERROR_NO_DEVICE
    if (const int status = init(0); status != 0 && status != kNoDevice) {
        const char* text = nullptr;
        error(status, &text);
        driver.broken = true;
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
        driver.problem = "an NVIDIA driver, but no device";
    }
    return driver;
}

std::string version_text(int version) {
    return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

Check check_driver(const Driver& driver) {
    if (!driver.problem.empty()) {
        return {.name = "gpu",
                .status = driver.broken ? CheckStatus::fail : CheckStatus::warn,
                .found = driver.problem,
                .expected = "an NVIDIA GPU with its driver",
                .why = "without a GPU training runs on the CPU, which suits small models",
                .fix = driver.broken ? "see the checks of the driver below; nvidia-smi and dmesg name the cause"
                       : driver.installed
                           ? "check nvidia-smi and CUDA_VISIBLE_DEVICES; start a container with --gpus all"
                           : "install the NVIDIA driver, or start the container with --gpus all"};
    }
    const std::string module = nvidia_module_version();
    return {.name = "gpu",
            .found = fmt::format("{}; driver {}CUDA {}", fmt::join(driver.devices, ", "),
                                 module.empty() ? "" : module + " for ", version_text(driver.version)),
            .expected = "an NVIDIA GPU with its driver",
            .why = "training runs there"};
}

// CUDA code runs on a driver of the same or a newer major version.
Check check_driver_version(const Driver& driver, const std::string& cuda, Check check) {
    const int required = parse_number<int>(std::string_view(cuda).substr(0, cuda.find('.'))).value_or(0);
    check.found = fmt::format("driver for CUDA {}, {} CUDA {}", version_text(driver.version), check.found, cuda);
    check.expected = fmt::format("a driver for CUDA {}.0 or later", required);
    if (driver.version / 1000 >= required) {
        check.fix.clear();
    } else {
        check.status = CheckStatus::fail;
    }
    return check;
}

Check check_build(bool device) {
    const bool built = cuda_built();
    return {.name = "CUDA code",
            .status = built || !device ? CheckStatus::ok : CheckStatus::warn,
            .found = built    ? "built in"
                     : device ? "not built"
                              : "not built, and not needed without a GPU",
            .expected = device ? "built in" : "built in on machines with a GPU",
            .why = "without it images are normalised and batch norm runs by several kernels of LibTorch instead of one",
            .fix = built || !device ? "" : "install the CUDA toolkit (nvcc) and build with STOKER_CUDA=ON"};
}

}  // namespace

std::vector<Check> check_gpu(const std::string& torch_cuda) {
    const Driver driver = query_driver();
    const bool device = !driver.devices.empty();
    std::vector<Check> checks = {check_driver(driver)};
    if (driver.version > 0 && !torch_cuda.empty()) {
        checks.push_back(
            check_driver_version(driver, torch_cuda,
                                 {.name = "driver fits",
                                  .found = "LibTorch for",
                                  .expected = "",
                                  .why = "LibTorch finds no device with an older driver",
                                  .fix = "update the NVIDIA driver, or install a torch built for the driver's CUDA"}));
    }
    if (device && torch_cuda.empty()) {
        checks.push_back({.name = "LibTorch CUDA",
                          .status = CheckStatus::warn,
                          .found = "a LibTorch built for the CPU",
                          .expected = "a LibTorch built for CUDA",
                          .why = "the GPU stays idle",
                          .fix = "install torch from PyTorch's CUDA index and build with STOKER_TORCH=<its folder>"});
    }
    checks.push_back(check_build(device));
    if (const std::string runtime = kCudaRuntime; cuda_built() && driver.version > 0) {
        checks.push_back(check_driver_version(
            driver, runtime,
            {.name = "driver fits build",
             .found = "Stoker built with",
             .expected = "",
             .why = "an older driver refuses to load its kernels",
             .fix = "update the NVIDIA driver, or build with an older CUDA toolkit or STOKER_CUDA=OFF"}));
    }
    return checks;
}

}  // namespace stoker::cli
