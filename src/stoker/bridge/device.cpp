// Opens libtorch_cuda at run time, so this file needs no CUDA header and one program runs on machines with and without
// a GPU.
#include "stoker/bridge/device.h"

#include <ATen/Context.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <dlfcn.h>

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <optional>

#include "stoker/base/error.h"
#include "stoker/bridge/device_memory.h"
#include "stoker/bridge/torch_error.h"

namespace stoker {
namespace {

// "" if LibTorch can use CUDA, else the reason.
std::string load_cuda() {
    void* driver = dlopen("libcuda.so.1", RTLD_LAZY);
    if (driver == nullptr) {
        return "no NVIDIA driver (libcuda.so.1)";
    }
    dlclose(driver);
    const std::string why_not = load_torch_cuda();
    return !why_not.empty() || at::hasCUDA() ? why_not : "no usable CUDA device";
}

// LibTorch's allocator knows no device before: its memory may be asked for before a first tensor.
void initialize_cuda(const std::string& name) {
    try {
        at::globalContext().lazyInitDevice(at::kCUDA);
    } catch (const c10::Error& error) {
        throw Unsupported({.where = "device",
                           .expected = name,
                           .got = first_line_of(error),
                           .hint = "run `stoker doctor`, or use device = \"cpu\""});
    }
}

// N of "cuda:N"; empty for any other name.
std::optional<int> cuda_index(const std::string& name) {
    int index = -1;
    const char* end = name.data() + name.size();
    const bool numbered = name.starts_with("cuda:") && std::from_chars(name.data() + 5, end, index).ptr == end;
    return numbered && index >= 0 ? std::optional(index) : std::nullopt;
}

}  // namespace

std::string load_torch_cuda() {
    // Never closed. If the program is linked against it, it is already loaded.
    const bool loaded = dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL) != nullptr;
    return loaded ? "" : fmt::format("a LibTorch without CUDA ({})", dlerror());
}

at::Device pick_device(const std::string& name, int local_rank) {
    if (name == "cpu") {
        return at::kCPU;
    }
    const std::optional<int> index = cuda_index(name);
    if (name != "auto" && name != "cuda" && !index) {
        throw InvalidArgument({.where = "device", .expected = "auto, cpu, cuda or cuda:N", .got = name});
    }
    const std::string why_not = load_cuda();
    if (!why_not.empty()) {
        if (name == "auto") {
            return at::kCPU;
        }
        throw Unsupported({.where = "device",
                           .expected = name,
                           .got = why_not,
                           .hint = "run `stoker doctor`, or use device = \"cpu\""});
    }
    const c10::DeviceIndex count = at::detail::getCUDAHooks().deviceCount();
    if (index.value_or(0) >= count) {
        throw InvalidArgument(
            {.where = "device", .expected = fmt::format("cuda:0 to cuda:{}", count - 1), .got = name});
    }
    const at::Device device(at::kCUDA, static_cast<c10::DeviceIndex>(index.value_or(local_rank % count)));
    c10::impl::VirtualGuardImpl(at::kCUDA).setDevice(device);
    initialize_cuda(name);
    return device;
}

int cuda_device_count() {
    return at::detail::getCUDAHooks().deviceCount();
}

void wait_for_device(const at::Tensor& last) {
    if (!last.is_cpu()) {
        last.detach().reshape({-1}).narrow(0, 0, 1).to(at::kCPU);
    }
}

Allocator& slot_allocator(const at::Device& device, bool pin_memory) {
    Allocator* const pinned = pin_memory ? pinned_memory(device) : nullptr;
    return pinned != nullptr ? *pinned : host_allocator();
}

const at::Tensor* DeviceBatch::find(std::string_view name) const {
    const auto found = std::ranges::find(fields, name, &DeviceField::name);
    return found != fields.end() ? &found->tensor : name == input_name ? &input : nullptr;
}

const at::Tensor& DeviceBatch::field(std::string_view name) const {
    const at::Tensor* const found = find(name);
    if (found == nullptr) {
        std::vector<std::string_view> names = {input_name};
        for (const DeviceField& own : fields) {
            if (own.name != input_name) {
                names.push_back(own.name);
            }
        }
        throw InvalidArgument(
            {.where = "batch",
             .expected = fmt::format("a field that it has: {}", fmt::join(names, ", ")),
             .got = std::string(name),
             .hint = "a copier copies those of BatchFields::more; a field of any length needs `pad`"});
    }
    return *found;
}

DeviceBatch DeviceBatch::narrow(std::int64_t begin, std::int64_t samples) const {
    DeviceBatch part{.input = input.narrow(0, begin, samples), .input_name = input_name, .late = late};
    if (target.defined()) {
        part.target = target.narrow(0, begin, samples);
    }
    for (const DeviceField& field : fields) {
        part.fields.push_back({field.name, field.tensor.narrow(0, begin, samples), field.late});
    }
    return part;
}

std::vector<at::Tensor> DeviceBatch::tensors() const {
    std::vector<at::Tensor> all = {input};
    if (target.defined()) {
        all.push_back(target);
    }
    for (const DeviceField& field : fields) {
        all.push_back(field.tensor);
    }
    return all;
}

}  // namespace stoker
