// Uniform numbers here are the middles of 2^32 equal parts of (0, 1), so that their logarithms are finite.
#include "stoker/ops/batch_mix.h"

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

void soft_targets(std::span<const std::int64_t> labels, double lambda, const TensorView& targets) {
    const auto samples = static_cast<std::int64_t>(labels.size());
    if (targets.shape.size() != 2 || targets.shape[0] != samples || targets.shape[1] < 1) {
        throw InvalidArgument(
            {.where = "soft_targets",
             .expected = fmt::format("targets of ({}, classes)", samples),
             .got = fmt::format("{} dimensions, {} elements", targets.shape.size(), targets.elements())});
    }
    const auto classes = static_cast<std::size_t>(targets.shape[1]);
    for (const std::int64_t label : labels) {
        if (label < 0 || label >= targets.shape[1]) {
            throw InvalidArgument({.where = "soft_targets",
                                   .expected = fmt::format("labels from 0 to {}", classes - 1),
                                   .got = fmt::to_string(label)});
        }
    }
    const std::span<float> out = targets.as<float>();
    std::fill(out.begin(), out.end(), 0.0f);
    for (std::size_t i = 0; i < labels.size(); ++i) {
        const std::int64_t before = labels[(i + labels.size() - 1) % labels.size()];
        out[i * classes + static_cast<std::size_t>(before)] = static_cast<float>(1.0 - lambda);
        out[i * classes + static_cast<std::size_t>(labels[i])] += static_cast<float>(lambda);
    }
}

}  // namespace stoker
