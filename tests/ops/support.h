// Noise images and the printing of kernel sets, for the tests of the ops.
#pragma once

#include <ostream>

#include "stoker/base/image.h"
#include "stoker/base/rng.h"
#include "stoker/ops/kernels.h"

namespace stoker {

// Called by GoogleTest for messages.
inline void PrintTo(const OpKernels& kernels, std::ostream* out) {
    *out << kernels.name;
}

namespace testing {

inline Image noise(int height, int width, int channels, std::uint64_t seed = 1) {
    Image image(height, width, channels);
    Rng rng({.seed = seed});
    for (std::size_t i = 0; i < image.bytes(); ++i) {
        image.view().data[i] = static_cast<std::uint8_t>(rng.next());
    }
    return image;
}

}  // namespace testing
}  // namespace stoker
