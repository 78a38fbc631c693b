// LibTorch ran out of the host's or a device's memory (torch_error.h).
#pragma once

#include "stoker/base/error.h"

namespace stoker {

class OutOfMemory : public Error {
    using Error::Error;
};

}  // namespace stoker
