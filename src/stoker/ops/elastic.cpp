// Draws a seed for each field. Each row draws from another stream, because that of one op would be too short.
#include "stoker/ops/elastic.h"

#include <cmath>
#include <cstdlib>

#include "stoker/ops/warp.h"

namespace stoker {
namespace {

std::vector<float> gaussian(int size, float sigma) {
    std::vector<float> kernel(static_cast<std::size_t>(size));
    float sum = 0;
    for (int i = 0; i < size; ++i) {
        const float x = (static_cast<float>(i) - 0.5f * static_cast<float>(size - 1)) / sigma;
        sum += kernel[static_cast<std::size_t>(i)] = std::exp(-0.5f * x * x);
    }
    for (float& weight : kernel) {
        weight /= sum;
    }
    return kernel;
}

// The index in 0 .. length - 1 that `index` is the reflection of; the edge itself is not repeated.
int reflected(int index, int length) {
    const int period = std::max(2 * (length - 1), 1);
    const int within = std::abs(index) % period;
    return within < length ? within : period - within;
}

// Smooths `lines` lines of `length` values, `step` apart, of a field.
void smooth(std::vector<float>& field, int lines, int length, int line_step, int step,
            const std::vector<float>& kernel) {
    const int half = static_cast<int>(kernel.size()) / 2;
    std::vector<float> padded(static_cast<std::size_t>(length) + kernel.size() - 1);
    for (int line = 0; line < lines; ++line) {
        float* const values = field.data() + std::ptrdiff_t{line} * line_step;
        for (int i = 0; i < static_cast<int>(padded.size()); ++i) {
            padded[static_cast<std::size_t>(i)] = values[std::ptrdiff_t{reflected(i - half, length)} * step];
        }
        for (int i = 0; i < length; ++i) {
            float sum = 0;
            for (std::size_t k = 0; k < kernel.size(); ++k) {
                sum += kernel[k] * padded[static_cast<std::size_t>(i) + k];
            }
            values[std::ptrdiff_t{i} * step] = sum;
        }
    }
}

// torchvision smooths both fields with both sigmas; the size of the kernel is that of the field's own.
std::vector<float> draw_field(const ElasticTransform& op, std::size_t axis, ImageSize image, Rng& rng) {
    const auto width = static_cast<std::size_t>(image.width);
    std::vector<float> field(static_cast<std::size_t>(image.height) * width);
    const std::uint64_t high = rng.next();
    const std::uint64_t seed = high << 32 | rng.next();
    for (std::size_t row = 0; row < static_cast<std::size_t>(image.height); ++row) {
        Rng noise({.seed = seed, .sample = row});
        std::ranges::generate(std::span(field).subspan(row * width, width), [&] { return noise.uniform(-1, 1); });
    }
    if (op.sigma[axis] > 0) {
        const int size = static_cast<int>(8 * op.sigma[axis] + 1) | 1;
        const float least = 1e-3f;
        smooth(field, image.height, image.width, image.width, 1, gaussian(size, std::max(op.sigma[0], least)));
        smooth(field, image.width, image.height, 1, image.width, gaussian(size, std::max(op.sigma[1], least)));
    }
    const float scale = op.alpha[axis] / static_cast<float>(axis == 0 ? image.width : image.height);
    for (float& value : field) {
        value *= scale;
    }
    return field;
}

struct Grid : warping::CentredGrid {
    const Displacement& by;
    int width;

    Grid(const Displacement& displacement, int height, int columns)
        : CentredGrid(height, columns), by(displacement), width(columns) {}

    warping::Position position(float column, float row) const {
        // Blocks reach beyond the end of a row.
        const int x = std::min(static_cast<int>(column - left), width - 1);
        const auto at = static_cast<std::size_t>(static_cast<int>(row - top)) * static_cast<std::size_t>(width) +
                        static_cast<std::size_t>(x);
        return {column / half_width + by.x[at], row / half_height + by.y[at]};
    }
};

}  // namespace

Displacement draw_elastic(const ElasticTransform& op, ImageSize image, Rng& rng) {
    for (std::size_t axis = 0; axis < 2; ++axis) {
        if (!std::isfinite(op.alpha[axis]) || !(op.sigma[axis] >= 0 && op.sigma[axis] <= kMaxElasticSigma)) {
            throw InvalidArgument({.where = "elastic_transform",
                                   .expected = fmt::format("finite alpha, and sigma from 0 to {}", kMaxElasticSigma),
                                   .got = fmt::format("{}, {}", op.alpha[axis], op.sigma[axis])});
        }
    }
    if (op.probability < 1 && !rng.chance(op.probability)) {
        return {};
    }
    Displacement drawn;
    drawn.x = draw_field(op, 0, image, rng);
    drawn.y = draw_field(op, 1, image, rng);
    return drawn;
}

void elastic(ImageView image, const Displacement& by, Interpolation interpolation, const Fill& fill, Image& scratch) {
    if (by.x.empty() && by.y.empty()) {
        return;
    }
    const auto pixels = static_cast<std::size_t>(image.height) * static_cast<std::size_t>(image.width);
    if (by.x.size() != pixels || by.y.size() != pixels) {
        throw InvalidArgument({.where = "elastic",
                               .expected = fmt::format("a displacement of {} pixels", pixels),
                               .got = fmt::format("{} and {}", by.x.size(), by.y.size())});
    }
    scratch.reset(image.height, image.width, image.channels);
    copy_pixels(image, scratch.view());
    warping::check("elastic", scratch.view(), image, true);
    warping::warp(scratch.view(), Grid(by, image.height, image.width), interpolation, fill, image);
}

void elastic_planes(PlanesView image, const Displacement& by, Interpolation interpolation, const Color& fill,
                    const PlaneValues& values, Planes& copy) {
    if (!by.x.empty()) {
        warping::warp_planes("elastic", image, Grid(by, image.height, image.width), interpolation, fill, values, copy);
    }
}

}  // namespace stoker
