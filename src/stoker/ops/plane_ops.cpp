// Plain loops over rows. The vertical pass of a resize comes first, since it runs over whole rows; sums are of floats,
// so its order changes the last bits only.
#include "stoker/ops/plane_ops.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

namespace stoker {
namespace {

constexpr float kWeightUnit = 1.0f / static_cast<float>(1 << kResizeBits);

// One output row: the weighted sum of input rows, between columns `begin` and `end` of the plane.
void sum_rows(ConstPlane from, int first_row, std::span<const std::int32_t> weights, int begin, int end, float* out) {
    std::fill(out + begin, out + end, 0.0f);
    for (std::size_t k = 0; k < weights.size(); ++k) {
        const float* row = from.row(first_row + static_cast<int>(k));
        const float weight = static_cast<float>(weights[k]) * kWeightUnit;
        for (int x = begin; x < end; ++x) {
            out[x] += weight * row[x];
        }
    }
}

void limit(Plane plane, const PlaneValues& values) {
    for (int y = 0; y < plane.height; ++y) {
        float* row = plane.row(y);
        for (int x = 0; x < plane.width; ++x) {
            row[x] = std::clamp(row[x], values.low, values.high);
        }
    }
}

std::span<const std::int32_t> weights_of(const ResizeAxis& axis, std::size_t output) {
    return {axis.weights.data() + output * static_cast<std::size_t>(axis.stride),
            static_cast<std::size_t>(axis.taps[output].count)};
}

}  // namespace

float plane_color(const Color& color, int c, const PlaneValues& values) {
    const std::size_t at = std::min(static_cast<std::size_t>(c), color.size() - 1);
    return static_cast<float>(color[at]) / 255.0f * values.top;
}

void resize_planes(ConstPlanesView from, const Box& window, const ResizeGeometry& geometry, const PlaneValues& values,
                   PlanesView to, PlanesResizeScratch& scratch) {
    const Box& part = geometry.part;
    const auto [height, width] = geometry.full;
    scratch.vertical.build(geometry.source.height, height, part.top, part.height, geometry.interpolation);
    scratch.horizontal.build(geometry.source.width, width, part.left, part.width, geometry.interpolation);
    const ResizeAxis& across = scratch.horizontal;
    const int begin = across.taps.front().first - window.left;
    const int end = begin + across.inputs();
    scratch.row.resize(static_cast<std::size_t>(from.width));
    for (int c = 0; c < from.channels; ++c) {
        const ConstPlane plane = from.plane(c);
        const Plane out = to.plane(c);
        for (int y = 0; y < part.height; ++y) {
            const auto at = static_cast<std::size_t>(y);
            sum_rows(plane, scratch.vertical.taps[at].first - window.top, weights_of(scratch.vertical, at), begin, end,
                     scratch.row.data());
            float* const line = out.row(y);
            for (int x = 0; x < part.width; ++x) {
                const std::span<const std::int32_t> weights = weights_of(across, static_cast<std::size_t>(x));
                const float* in = scratch.row.data() + across.taps[static_cast<std::size_t>(x)].first - window.left;
                float sum = 0;
                for (std::size_t k = 0; k < weights.size(); ++k) {
                    sum += static_cast<float>(weights[k]) * in[k];
                }
                line[x] = sum * kWeightUnit;
            }
            if (geometry.flip) {
                std::reverse(line, line + part.width);
            }
        }
        if (may_overshoot(geometry.interpolation)) {
            limit(out, values);
        }
    }
}

void padded_crop_planes(ConstPlanesView from, const Box& box, PaddingMode mode, const Color& fill,
                        const PlaneValues& values, PlanesView to) {
    for (int c = 0; c < from.channels; ++c) {
        const ConstPlane plane = from.plane(c);
        const float color = plane_color(fill, c, values);
        for (int y = 0; y < box.height; ++y) {
            float* out = to.plane(c).row(y);
            const int source = padded_source(box.top + y, from.height, mode);
            for (int x = 0; x < box.width; ++x) {
                const int column = padded_source(box.left + x, from.width, mode);
                out[x] = source < 0 || column < 0 ? color : plane.row(source)[column];
            }
        }
    }
}

void flip_planes_horizontally(PlanesView image) {
    for (int c = 0; c < image.channels; ++c) {
        for (int y = 0; y < image.height; ++y) {
            float* row = image.plane(c).row(y);
            std::reverse(row, row + image.width);
        }
    }
}

void flip_planes_vertically(PlanesView image) {
    for (int c = 0; c < image.channels; ++c) {
        const Plane plane = image.plane(c);
        for (int y = 0; y < image.height / 2; ++y) {
            std::swap_ranges(plane.row(y), plane.row(y) + plane.width, plane.row(plane.height - 1 - y));
        }
    }
}

void random_erasing_planes(PlanesView image, const ErasingParams& params, const PlaneValues& values) {
    const PlanesView part = image.crop(params.box);
    for (int c = 0; c < part.channels; ++c) {
        for (int y = 0; y < part.height; ++y) {
            float* row = part.plane(c).row(y);
            if (params.value) {
                std::fill_n(row, part.width, plane_color(*params.value, c, values));
                continue;
            }
            // A stream for each row, as random_erasing has, and channel.
            Rng rng({.seed = params.noise,
                     .sample = static_cast<std::uint64_t>(y),
                     .occurrence = static_cast<std::uint16_t>(c)});
            std::generate_n(row, part.width, [&] { return rng.uniform(0, values.top); });
        }
    }
}

std::array<float, 2> value_range(ConstPlanesView image) {
    float low = std::numeric_limits<float>::infinity();
    float high = -low;
    for (int c = 0; c < image.channels; ++c) {
        for (int y = 0; y < image.height; ++y) {
            const float* row = image.plane(c).row(y);
            for (int x = 0; x < image.width; ++x) {
                if (std::isfinite(row[x])) {
                    low = std::min(low, row[x]);
                    high = std::max(high, row[x]);
                }
            }
        }
    }
    return low <= high ? std::array{low, high} : std::array{0.0f, 0.0f};
}

std::array<float, 2> quantiles(ConstPlanesView image, std::array<double, 2> shares, std::vector<float>& sorted) {
    sorted.clear();
    for (int c = 0; c < image.channels; ++c) {
        for (int y = 0; y < image.height; ++y) {
            const float* row = image.plane(c).row(y);
            std::copy_if(row, row + image.width, std::back_inserter(sorted), [](float x) { return std::isfinite(x); });
        }
    }
    if (sorted.empty()) {
        return {0, 0};
    }
    const auto at = [&](double share) {
        const double place = share * static_cast<double>(sorted.size() - 1);
        const auto below = static_cast<std::ptrdiff_t>(place);
        const auto lower = sorted.begin() + below;
        std::nth_element(sorted.begin(), lower, sorted.end());
        const float first = *lower;
        const float second = below + 1 < std::ssize(sorted) ? *std::min_element(lower + 1, sorted.end()) : first;
        return first + static_cast<float>(place - static_cast<double>(below)) * (second - first);
    };
    return {at(shares[0]), at(shares[1])};
}

}  // namespace stoker
