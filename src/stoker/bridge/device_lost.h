// A device failed in a way after which no operation on it succeeds in this process (torch_error.h).
#pragma once

#include <string>

#include "stoker/base/error.h"

namespace stoker {

class DeviceLost : public Error {
  public:
    // `reason`: LibTorch's words. `hint`: how to go on.
    explicit DeviceLost(const std::string& reason, const std::string& hint = "`stoker doctor` looks at the machine")
        : Error({.where = "device", .expected = "a device that works", .got = reason, .hint = hint}), reason_(reason) {}

    const std::string& reason() const { return reason_; }

  private:
    std::string reason_;
};

}  // namespace stoker
