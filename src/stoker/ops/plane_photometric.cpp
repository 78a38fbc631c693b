// torchvision's posterize, solarize, autocontrast, equalize and adjust_sharpness for tensors of other types than uint8,
// and the ops of RandAugment and its like.
#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/format.h>

#include "stoker/base/error.h"
#include "stoker/ops/plane_ops.h"

namespace stoker {
namespace {

template <typename Change>
void change_plane(Plane plane, Change change) {
    for (int y = 0; y < plane.height; ++y) {
        float* const row = plane.row(y);
        std::transform(row, row + plane.width, row, change);
    }
}

bool whole(const PlaneValues& values) {
    return values.top > 1;
}

// Whole numbers keep the upper bits of those that positive values have: 16 of uint16, 15 of int16.
void posterize(Plane plane, int bits, const PlaneValues& values) {
    const float levels = static_cast<float>(1 << bits);
    if (whole(values)) {
        const float step = std::max((values.top + 1) / levels, 1.0f);
        change_plane(plane, [&](float value) { return std::floor(value / step) * step; });
        return;
    }
    change_plane(plane, [&](float value) { return std::clamp(std::floor(value * levels), 0.0f, levels - 1) / levels; });
}

void autocontrast(Plane plane, float top) {
    float low = std::numeric_limits<float>::infinity();
    float high = -low;
    for (int y = 0; y < plane.height; ++y) {
        for (int x = 0; x < plane.width; ++x) {
            low = std::min(low, plane.row(y)[x]);
            high = std::max(high, plane.row(y)[x]);
        }
    }
    if (!(low < high)) {  // constant: torchvision limits it
        low = 0;
        high = top;
    }
    const float scale = (high - low) * (1 / top);
    change_plane(plane, [&](float value) { return std::clamp((value - low) / scale, 0.0f, top); });
}

// Values become bytes and their bytes the type's values as in torchvision's to_dtype(scale=True).
void equalize(Plane plane, const PlaneValues& values) {
    const float to_byte = whole(values) ? 256 / (values.top + 1) : 255.999f;
    const float from_byte = whole(values) ? (values.top + 1) / 256 : 1.0f / 255;
    const auto byte_of = [&](float value) {
        return value > 0 ? static_cast<std::size_t>(std::min(value * to_byte, 255.0f)) : 0;  // 0 for NaN
    };
    std::array<std::int64_t, 256> histogram{};
    for (int y = 0; y < plane.height; ++y) {
        for (int x = 0; x < plane.width; ++x) {
            ++histogram[byte_of(plane.row(y)[x])];
        }
    }
    const auto largest = std::find_if(histogram.rbegin(), histogram.rend(), [](auto n) { return n != 0; });
    const std::int64_t step = (std::int64_t{plane.height} * plane.width - *largest) / 255;
    std::array<float, 256> table{};
    std::int64_t below = 0;
    for (std::size_t value = 0; value < table.size(); ++value) {
        const auto level = step == 0 ? static_cast<std::int64_t>(value) : (below + step / 2) / step;
        table[value] = static_cast<float>(std::min<std::int64_t>(level, 255)) * from_byte;
        below += histogram[value];
    }
    change_plane(plane, [&](float value) { return table[byte_of(value)]; });
}

// The border of one pixel stays.
void sharpen(PlanesView image, float factor, float top, Planes& copy) {
    if (image.height <= 2 || image.width <= 2) {
        return;
    }
    const Plane original = copy.reset(1, image.height, image.width).plane(0);
    for (int c = 0; c < image.channels; ++c) {
        const Plane plane = image.plane(c);
        for (int y = 0; y < image.height; ++y) {
            std::copy_n(plane.row(y), image.width, original.row(y));
        }
        for (int y = 1; y + 1 < image.height; ++y) {
            float* const out = plane.row(y);
            for (int x = 1; x + 1 < image.width; ++x) {
                float sum = 4 * original.row(y)[x];
                for (int dy = -1; dy <= 1; ++dy) {
                    const float* const row = original.row(y + dy) + x;
                    sum += row[-1] + row[0] + row[1];
                }
                out[x] += (sum / 13 - out[x]) * (1 - factor);
            }
        }
        change_plane(plane, [&](float value) { return std::clamp(value, 0.0f, top); });
    }
}

void require_colors(const char* op, PlanesView image) {
    if (image.channels != 1 && image.channels != 3) {
        throw DataError({}, {.where = op,
                             .expected = "an image of 1 or 3 channels",
                             .got = fmt::format("{} channels", image.channels)});
    }
}

struct RunStep {
    PlanesView image;
    const AugmentParams& params;
    const PlaneValues& values;
    Planes& copy;

    void operator()(std::monostate /*step*/) const {}
    void operator()(const AffineParams& by) const {
        affine_planes(image, by, params.interpolation, params.fill, values, copy);
    }
    void operator()(const ColorJitterParams& by) const { color_jitter_planes(image, by, values); }
    void operator()(const RandomPhotometric& by) const { photometric_planes(image, by, values, copy); }
    void operator()(const SolarizeAdd& by) const {
        const float unit = values.top / 255;
        for (int c = 0; c < image.channels; ++c) {
            change_plane(image.plane(c), [&](float value) {
                return value < 128 * unit ? std::min(value + static_cast<float>(by.amount) * unit, values.top) : value;
            });
        }
    }
};

}  // namespace

void photometric_planes(PlanesView image, const RandomPhotometric& op, const PlaneValues& values, Planes& copy) {
    require_possible(op);
    const float top = values.top;
    if (op.kind == Photometric::sharpness) {
        require_colors("adjust_sharpness", image);
        return sharpen(image, op.amount, top, copy);
    }
    if (op.kind == Photometric::autocontrast) {
        require_colors("autocontrast", image);
    }
    for (int c = 0; c < image.channels; ++c) {
        const Plane plane = image.plane(c);
        if (op.kind == Photometric::posterize) {
            posterize(plane, static_cast<int>(op.amount), values);
        } else if (op.kind == Photometric::solarize) {
            const float threshold = op.amount / 255 * top;
            change_plane(plane, [&](float value) { return value >= threshold ? top - value : value; });
        } else if (op.kind == Photometric::invert) {
            change_plane(plane, [&](float value) { return top - value; });
        } else if (op.kind == Photometric::autocontrast) {
            autocontrast(plane, top);
        } else {
            equalize(plane, values);
        }
    }
}

void augment_planes(PlanesView image, const AugmentParams& params, const PlaneValues& values, Planes& copy) {
    require_colors("augment", image);  // also where this op takes others
    std::visit(RunStep{image, params, values, copy}, augment_step(params, {image.height, image.width}));
}

}  // namespace stoker
