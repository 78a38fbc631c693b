// Uniform numbers are the middles of 2^32 equal parts of (0, 1), so that their logarithms are finite.
#include "stoker/ops/mixup_cutmix_params.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "stoker/base/error.h"

namespace stoker {
namespace {

double open_uniform(Rng& rng) {
    return (static_cast<double>(rng.next()) + 0.5) * 0x1p-32;
}

double normal(Rng& rng) {
    const double radius = std::sqrt(-2.0 * std::log(open_uniform(rng)));
    return radius * std::cos(2.0 * std::numbers::pi * open_uniform(rng));
}

// The logarithm of a Gamma(alpha, 1) variate. Nineteen of twenty tries succeed.
double draw_log_gamma(double alpha, Rng& rng) {
    if (alpha < 1) {
        const double larger = draw_log_gamma(alpha + 1, rng);
        return larger + std::log(open_uniform(rng)) / alpha;
    }
    const double d = alpha - 1.0 / 3.0;
    const double c = 1.0 / std::sqrt(9.0 * d);
    for (;;) {
        const double x = normal(rng);
        const double root = 1.0 + c * x;
        if (root <= 0) {
            continue;
        }
        const double v = root * root * root;
        if (std::log(open_uniform(rng)) < 0.5 * x * x + d - d * v + d * std::log(v)) {
            return std::log(d * v);
        }
    }
}

}  // namespace

Rng batch_rng(std::uint64_t seed, std::uint32_t epoch, std::uint64_t batch, BatchOp op) {
    return Rng({.seed = seed, .epoch = epoch, .sample = batch, .op = static_cast<std::uint16_t>(op)});
}

double draw_beta(double alpha, Rng& rng) {
    if (!(alpha >= 1e-6 && alpha <= 1e6)) {
        throw InvalidArgument({.where = "beta", .expected = "an alpha from 1e-6 to 1e6", .got = fmt::to_string(alpha)});
    }
    const double first = draw_log_gamma(alpha, rng);
    const double second = draw_log_gamma(alpha, rng);
    return 1.0 / (1.0 + std::exp(second - first));
}

CutMixParams draw_cutmix(double alpha, int height, int width, Rng& rng) {
    if (height < 1 || width < 1) {
        throw InvalidArgument(
            {.where = "cutmix", .expected = "images of at least 1 x 1", .got = fmt::format("{} x {}", height, width)});
    }
    const double side = 0.5 * std::sqrt(1.0 - draw_beta(alpha, rng));
    const auto x = static_cast<int>(rng.below(static_cast<std::uint32_t>(width)));
    const auto y = static_cast<int>(rng.below(static_cast<std::uint32_t>(height)));
    const int half_width = static_cast<int>(side * width);
    const int half_height = static_cast<int>(side * height);
    const int left = std::max(x - half_width, 0);
    const int top = std::max(y - half_height, 0);
    const Box box{top, left, std::min(y + half_height, height) - top, std::min(x + half_width, width) - left};
    const double share = static_cast<double>(box.height) * box.width / (static_cast<double>(height) * width);
    return {box, 1.0 - share};
}

}  // namespace stoker
