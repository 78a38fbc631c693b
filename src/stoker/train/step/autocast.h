// Mixed precision for a scope, as torch.autocast: matrix products and convolutions run in bf16 or fp16, operations that
// need range or precision in float32.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <optional>
#include <string>

namespace stoker {

// train.precision on a device.
struct Precision {
    std::optional<at::ScalarType> autocast = std::nullopt;  // bf16 or fp16; empty: none
    bool loss_scaling = false;                              // for fp16, in which small gradients vanish
    bool tf32 = false;                                      // matrix products on a GPU may drop 13 bits
};

// `auto` is float32 on a CPU; on a GPU bf16 if the hardware has it, else fp16. Throws InvalidArgument for a precision
// that the device does not have.
Precision choose_precision(const std::string& precision, const at::Device& device);

// Restores the previous state when it goes out of scope. Cast weights are cached within the outermost scope, so each is
// cast once a step.
class Autocast {
  public:
    // Does nothing if `precision` is without autocast.
    Autocast(const Precision& precision, const at::Device& device);
    Autocast(const Autocast&) = delete;
    Autocast& operator=(const Autocast&) = delete;
    ~Autocast();

  private:
    bool active_;
    at::DeviceType device_;
    bool was_enabled_ = false;
    at::ScalarType was_type_ = at::kFloat;
};

}  // namespace stoker
