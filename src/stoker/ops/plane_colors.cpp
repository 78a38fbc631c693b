// torchvision's colour functions for tensors: factors on values from 0 to `top`.
#include "stoker/ops/plane_ops.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "stoker/base/error.h"
#include "stoker/ops/color_pixel.h"

namespace stoker {
namespace {

void require_colors(ConstPlanesView image) {
    if (image.channels != 1 && image.channels != 3) {
        throw DataError({}, {.where = "colours",
                             .expected = "an image of 1 or 3 channels",
                             .got = fmt::format("{} channels", image.channels)});
    }
}

float gray_of(float red, float green, float blue) {
    return 0.2989f * red + 0.587f * green + 0.114f * blue;
}

// Calls change(red, green, blue) for each pixel of three channels.
template <typename Change>
void for_each_pixel(PlanesView image, Change change) {
    for (int y = 0; y < image.height; ++y) {
        float* const red = image.plane(0).row(y);
        float* const green = image.plane(1).row(y);
        float* const blue = image.plane(2).row(y);
        for (int x = 0; x < image.width; ++x) {
            change(red[x], green[x], blue[x]);
        }
    }
}

template <typename Change>
void for_each_value(PlanesView image, Change change) {
    for (int c = 0; c < image.channels; ++c) {
        for (int y = 0; y < image.height; ++y) {
            float* const row = image.plane(c).row(y);
            for (int x = 0; x < image.width; ++x) {
                row[x] = change(row[x]);
            }
        }
    }
}

float mean_gray(PlanesView image) {
    double sum = 0;
    if (image.channels == 3) {
        for_each_pixel(image, [&](float r, float g, float b) { sum += static_cast<double>(gray_of(r, g, b)); });
    } else {
        for_each_value(image, [&](float value) {
            sum += static_cast<double>(value);
            return value;
        });
    }
    return static_cast<float>(sum / (static_cast<double>(image.height) * image.width));
}

void turn_hues(PlanesView image, float turns, float top) {
    const float unit = 1.0f / top;
    const auto share = [unit](float value) { return value > 0 ? std::min(value * unit, 1.0f) : 0.0f; };  // 0 for NaN
    for_each_pixel(image, [&](float& red, float& green, float& blue) {
        const auto turned = color_pixel::turned_hue(color_pixel::to_hsv(share(red), share(green), share(blue)), turns);
        const auto place = [&](float at) {
            return color_pixel::channel(turned.middle, at, turned.most, turned.slope, turned.least) * top;
        };
        red = place(0);
        green = place(2);
        blue = place(4);
    });
}

int reflected(int position, int length) {
    return position < 0 ? -position : position < length ? position : 2 * (length - 1) - position;
}

std::vector<float> gaussian(int size, float sigma) {
    std::vector<float> weights(static_cast<std::size_t>(size));
    double sum = 0;
    for (int k = 0; k < size; ++k) {
        const double distance = static_cast<double>(k - size / 2) / static_cast<double>(sigma);
        weights[static_cast<std::size_t>(k)] = static_cast<float>(std::exp(-0.5 * distance * distance));
        sum += static_cast<double>(weights[static_cast<std::size_t>(k)]);
    }
    for (float& weight : weights) {
        weight = static_cast<float>(static_cast<double>(weight) / sum);
    }
    return weights;
}

}  // namespace

void color_jitter_planes(PlanesView image, const ColorJitterParams& params, const PlaneValues& values) {
    require_colors(image);
    const auto store = [&](float value) { return std::clamp(value, 0.0f, values.top); };
    for (const Adjust adjust : params.order) {
        if (adjust == Adjust::brightness && params.brightness != 1) {
            for_each_value(image, [&](float value) { return store(value * params.brightness); });
        } else if (adjust == Adjust::contrast && params.contrast != 1) {
            const float other = mean_gray(image) * (1 - params.contrast);
            for_each_value(image, [&](float value) { return store(value * params.contrast + other); });
        } else if (adjust == Adjust::saturation && params.saturation != 1 && image.channels == 3) {
            for_each_pixel(image, [&](float& red, float& green, float& blue) {
                const float other = gray_of(red, green, blue) * (1 - params.saturation);
                red = store(red * params.saturation + other);
                green = store(green * params.saturation + other);
                blue = store(blue * params.saturation + other);
            });
        } else if (adjust == Adjust::hue && params.hue != 0 && image.channels == 3) {
            turn_hues(image, params.hue, values.top);
        }
    }
}

void grayscale_planes(PlanesView image) {
    require_colors(image);
    if (image.channels == 3) {
        for_each_pixel(image,
                       [&](float& red, float& green, float& blue) { red = green = blue = gray_of(red, green, blue); });
    }
}

void gaussian_blur_planes(PlanesView image, const BlurParams& params, Planes& copy) {
    const int down = params.height / 2;
    const int across = params.width / 2;
    if (image.height <= down || image.width <= across) {
        throw DataError({}, {.where = "gaussian_blur",
                             .expected = fmt::format("an image of at least {} x {} for a kernel of {} x {}", down + 1,
                                                     across + 1, params.height, params.width),
                             .got = fmt::format("{} x {}", image.height, image.width)});
    }
    const std::vector<float> rows = gaussian(params.height, params.sigma);
    const std::vector<float> columns = gaussian(params.width, params.sigma);
    const Plane sums = copy.reset(1, image.height, image.width).plane(0);  // after the pass down
    for (int c = 0; c < image.channels; ++c) {
        const Plane plane = image.plane(c);
        for (int y = 0; y < image.height; ++y) {
            float* const sum = sums.row(y);
            std::fill_n(sum, image.width, 0.0f);
            for (int k = 0; k < params.height; ++k) {
                const float* const row = plane.row(reflected(y - down + k, image.height));
                const float weight = rows[static_cast<std::size_t>(k)];
                for (int x = 0; x < image.width; ++x) {
                    sum[x] += weight * row[x];
                }
            }
        }
        for (int y = 0; y < image.height; ++y) {
            const float* const sum = sums.row(y);
            for (int x = 0; x < image.width; ++x) {
                float value = 0;
                for (int k = 0; k < params.width; ++k) {
                    value += columns[static_cast<std::size_t>(k)] * sum[reflected(x - across + k, image.width)];
                }
                plane.row(y)[x] = value;
            }
        }
    }
}

}  // namespace stoker
