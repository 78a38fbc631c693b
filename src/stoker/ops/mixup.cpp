// From the last image to the first, so that each one's partner is still as it was.
#include "stoker/ops/mixup.h"

#include <fmt/format.h>

#include <cstring>

#include "stoker/base/error.h"
#include "stoker/ops/batch_mix.h"

namespace stoker {
namespace {

void blend(float* __restrict image, const float* __restrict partner, std::size_t count, float own, float other) {
    for (std::size_t i = 0; i < count; ++i) {
        image[i] = partner[i] * other + image[i] * own;
    }
}

}  // namespace

double draw_mixup(const MixUp& op, Rng& rng) {
    return draw_beta(op.alpha, rng);
}

void mixup(const TensorView& images, double lambda, Buffer& scratch) {
    if (images.shape.empty() || images.shape[0] < 1 || !(lambda >= 0 && lambda <= 1)) {
        throw InvalidArgument({.where = "mixup",
                               .expected = "images (N, ...) with N >= 1 and a lambda from 0 to 1",
                               .got = fmt::format("{} dimensions, lambda {}", images.shape.size(), lambda)});
    }
    const std::span<float> pixels = images.as<float>();
    const auto samples = static_cast<std::size_t>(images.shape[0]);
    const std::size_t size = pixels.size() / samples;
    if (size == 0) {
        return;
    }
    const auto own = static_cast<float>(lambda);
    const auto other = static_cast<float>(1.0 - lambda);
    scratch.resize(size * sizeof(float));
    auto* last = reinterpret_cast<float*>(scratch.data());
    std::memcpy(last, &pixels[(samples - 1) * size], size * sizeof(float));
    for (std::size_t i = samples - 1; i > 0; --i) {
        blend(&pixels[i * size], &pixels[(i - 1) * size], size, own, other);
    }
    blend(pixels.data(), last, size, own, other);
}

}  // namespace stoker
