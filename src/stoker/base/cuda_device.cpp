#include "stoker/base/cuda_device.h"

namespace stoker {

bool cuda_built() {
    return true;
}

}  // namespace stoker
