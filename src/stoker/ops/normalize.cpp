// Converts mean and std to factors in double, so that each is rounded once.
#include "stoker/ops/normalize.h"

#include <fmt/format.h>

#include <cmath>

#include "stoker/base/error.h"

namespace stoker {

NormalizeFactors normalize_factors(const Normalize& op) {
    NormalizeFactors factors;
    for (std::size_t c = 0; c < factors.scale.size(); ++c) {
        if (!std::isfinite(op.mean[c]) || !std::isfinite(op.std[c]) || !(op.std[c] > 0)) {
            throw InvalidArgument({.where = "normalize",
                                   .expected = "a finite mean and a std above 0",
                                   .got = fmt::format("mean {} and std {} for channel {}", op.mean[c], op.std[c], c)});
        }
        factors.scale[c] = static_cast<float>(1.0 / (255.0 * op.std[c]));
        factors.bias[c] = static_cast<float>(-static_cast<double>(op.mean[c]) / op.std[c]);
    }
    return factors;
}

}  // namespace stoker
