// LibTorch lacks a RAII guard for at::autocast's thread-local switches.
#include "stoker/train/step/autocast.h"

#include <ATen/autocast_mode.h>

#include "stoker/base/error.h"
#include "stoker/bridge/device_memory.h"

namespace stoker {
namespace {

// Compute capability 8 and later.
bool has_bf16(const at::Device& device) {
    constexpr int kAmpere = 8;
    const std::optional<CudaDevice> found = device_properties(device);
    return found && found->major >= kAmpere;
}

}  // namespace

Precision choose_precision(const std::string& precision, const at::Device& device) {
    const bool gpu = device.is_cuda();
    if (precision == "fp32" || (precision == "auto" && !gpu)) {
        return {};
    }
    if (precision == "tf32") {
        if (!gpu) {
            throw InvalidArgument({.where = "train.precision",
                                   .expected = "fp32, bf16 or fp16 on a CPU",
                                   .got = "tf32",
                                   .hint = "only GPUs have tf32"});
        }
        return {.tf32 = true};
    }
    if (precision == "fp16" || (precision == "auto" && !has_bf16(device))) {
        return {.autocast = at::kHalf, .loss_scaling = true, .tf32 = true};
    }
    return {.autocast = at::kBFloat16, .tf32 = gpu};
}

Autocast::Autocast(const Precision& precision, const at::Device& device)
    : active_(precision.autocast.has_value()), device_(device.type()) {
    if (active_) {
        was_enabled_ = at::autocast::is_autocast_enabled(device_);
        was_type_ = at::autocast::get_autocast_dtype(device_);
        at::autocast::set_autocast_enabled(device_, true);
        at::autocast::set_autocast_dtype(device_, *precision.autocast);
        at::autocast::increment_nesting();
    }
}

Autocast::~Autocast() {
    if (active_) {
        if (at::autocast::decrement_nesting() == 0) {
            at::autocast::clear_cache();
        }
        at::autocast::set_autocast_enabled(device_, was_enabled_);
        at::autocast::set_autocast_dtype(device_, was_type_);
    }
}

}  // namespace stoker
