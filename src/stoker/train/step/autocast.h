// Mixed precision for a scope: inside, matrix products and convolutions run in bf16 or fp16, what needs range or
// exactness in float32, as torch.autocast chooses.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <optional>
#include <string>

namespace stoker {

// What a recipe's train.precision means on a device.
struct Precision {
    std::optional<at::ScalarType> autocast = std::nullopt;  // bf16 or fp16; empty: none
    bool loss_scaling = false;                              // fp16: small gradients would vanish
    bool tf32 = false;                                      // a GPU's matrix products may drop 13 bits

    std::string name() const;  // "fp32", "tf32", "bf16", "fp16"
};

// `auto`: float32 on a CPU; on a GPU bf16 where it has that in hardware, else fp16. Throws InvalidArgument for a
// precision that the device does not have.
Precision choose_precision(const std::string& precision, const at::Device& device);

// The state before is there again at the end, also after an exception. Weights that were cast are kept within the
// outermost scope, so that each is cast once a step.
class Autocast {
  public:
    // Nothing where `precision` has no autocast.
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
