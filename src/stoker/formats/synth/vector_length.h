// The length of a vector, with the rounding of glibc's hypotf from 2.35 on, which older systems do not have.
#pragma once

#include <cmath>

namespace stoker {

inline float vector_length(float x, float y) {
    return static_cast<float>(std::sqrt(static_cast<double>(x) * x + static_cast<double>(y) * y));
}

}  // namespace stoker
