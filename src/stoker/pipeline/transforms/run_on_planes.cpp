// Each visitor draws the parameters that pixel_ops.cpp draws.
#include "stoker/pipeline/transforms/run_on_planes.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "stoker/base/error.h"
#include "stoker/base/float16.h"
#include "stoker/ops/plane_ops.h"

namespace stoker {
namespace {

struct RunOnPlanes {
    PlanesView image;
    const PlaneValues& values;
    Rng& rng;
    Planes& copy;

    void operator()(const HorizontalFlip& op) const {
        if (draw_horizontal_flip(op, rng)) {
            flip_planes_horizontally(image);
        }
    }
    void operator()(const VerticalFlip& op) const {
        if (draw_vertical_flip(op, rng)) {
            flip_planes_vertically(image);
        }
    }
    void operator()(const RandomRotation& op) const {
        if (const AffineParams turn = rotation_of(draw_random_rotation(op, rng)); turn.angle != 0) {
            affine_planes(image, turn, op.interpolation, op.fill, values, copy);
        }
    }
    void operator()(const RandomAffine& op) const {
        affine_planes(image, draw_random_affine(op, size(), rng), op.interpolation, op.fill, values, copy);
    }
    void operator()(const RandomPerspective& op) const {
        perspective_planes(image, draw_random_perspective(op, size(), rng), op.interpolation, op.fill, values, copy);
    }
    void operator()(const ElasticTransform& op) const {
        elastic_planes(image, draw_elastic(op, size(), rng), op.interpolation, op.fill, values, copy);
    }
    void operator()(const ColorJitter& op) const { color_jitter_planes(image, draw_color_jitter(op, rng), values); }
    void operator()(const RandomGrayscale& op) const {
        if (draw_random_grayscale(op, rng)) {
            grayscale_planes(image);
        }
    }
    void operator()(const RandomPhotometric& op) const {
        if (draw_random_photometric(op, rng)) {
            photometric_planes(image, op, values, copy);
        }
    }
    void operator()(const TrivialAugmentWide& op) const { augment(draw_trivial_augment(op, rng)); }
    void operator()(const RandAugment& op) const {
        for (int i = 0; i < op.num_ops; ++i) {
            augment(draw_rand_augment(op, size(), rng));
        }
    }
    void operator()(const TimmRandAugment& op) const {
        for (int i = 0; i < op.num_ops; ++i) {
            augment(draw_timm_rand_augment(op, size(), rng));
        }
    }
    void operator()(const AutoAugment& op) const {
        for (const AugmentParams& params : draw_auto_augment(op, size(), rng)) {
            augment(params);
        }
    }
    void operator()(const GaussianBlur& op) const { gaussian_blur_planes(image, draw_gaussian_blur(op, rng), copy); }
    void operator()(const RandomErasing& op) const {
        random_erasing_planes(image, draw_random_erasing(op, image.height, image.width, rng), values);
    }
    void operator()(const std::shared_ptr<const OpGroup>& group) const {
        visit_drawn(*group, rng, [&](const PixelOp& op, Rng own) { run_on_planes(op, image, values, own, copy); });
    }
    void operator()(const std::shared_ptr<const CustomOp>& /*op*/) const {
        throw InternalError({.where = "planes", .expected = "an op that runs on planes", .got = "one for bytes"});
    }

    void augment(const AugmentParams& params) const { augment_planes(image, params, values, copy); }
    ImageSize size() const { return {image.height, image.width}; }
};

// `step`: elements from one to the next, as a constant where the loop is to be vectorised.
template <typename T, typename Step, typename Convert>
void load_row(const std::byte* from, Step step, std::span<float> out, Convert convert) {
    for (float& value : out) {
        T element;
        std::memcpy(&element, from, sizeof element);
        value = convert(element);
        from += step * static_cast<std::ptrdiff_t>(sizeof(T));
    }
}

// Calls convert(element) for each element of the box.
template <typename T, typename Convert>
void load_as(const FieldValue& pixels, const Box& box, PlanesView to, Convert convert) {
    const std::ptrdiff_t width = pixels.width;
    const std::ptrdiff_t channels = pixels.channels;
    const std::ptrdiff_t column = pixels.planes ? 1 : channels;
    const std::ptrdiff_t row = width * column;
    const std::ptrdiff_t plane = pixels.planes ? row * pixels.height : 1;
    for (int c = 0; c < to.channels; ++c) {
        for (int y = 0; y < to.height; ++y) {
            const std::byte* from = pixels.bytes.data() + (c * plane + (box.top + y) * row + box.left * column) *
                                                              static_cast<std::ptrdiff_t>(sizeof(T));
            const std::span out(to.plane(c).row(y), static_cast<std::size_t>(to.width));
            if (column == 1) {
                load_row<T>(from, std::integral_constant<std::ptrdiff_t, 1>(), out, convert);
            } else {
                load_row<T>(from, column, out, convert);
            }
        }
    }
}

}  // namespace

bool is_for_bytes(const PixelOp& op) {
    if (const auto* const group = std::get_if<std::shared_ptr<const OpGroup>>(&op)) {
        return std::ranges::any_of((*group)->ops, is_for_bytes);
    }
    return std::holds_alternative<std::shared_ptr<const CustomOp>>(op);
}

void run_on_planes(const PixelOp& op, PlanesView image, const PlaneValues& values, Rng rng, Planes& copy) {
    std::visit(RunOnPlanes{image, values, rng, copy}, op);
}

PlaneValues plane_values(DType dtype) {
    switch (dtype) {
        case DType::uint8:
            return {.top = 255, .low = 0, .high = 255};
        case DType::uint16:
            return {.top = 65535, .low = 0, .high = 65535};
        case DType::int16:
            return {.top = 32767, .low = -32768, .high = 32767};
        default:
            return {};
    }
}

void load_pixels(const FieldValue& pixels, const Box& box, PlanesView to) {
    const DType dtype = pixels.dtype.value_or(DType::uint8);
    const std::size_t bytes = static_cast<std::size_t>(pixels.height) * static_cast<std::size_t>(pixels.width) *
                              static_cast<std::size_t>(pixels.channels) * item_size(dtype);
    if (pixels.bytes.size() != bytes || !is_image_dtype(dtype)) {
        throw DataError({}, {.where = "raw pixels",
                             .expected = fmt::format("{} bytes for {} x {} x {} of {}", bytes, pixels.height,
                                                     pixels.width, pixels.channels, dtype_name(dtype)),
                             .got = fmt::to_string(pixels.bytes.size())});
    }
    const auto as_float = [](auto element) { return static_cast<float>(element); };
    switch (dtype) {
        case DType::uint8:
            return load_as<std::uint8_t>(pixels, box, to, as_float);
        case DType::uint16:
            return load_as<std::uint16_t>(pixels, box, to, as_float);
        case DType::int16:
            return load_as<std::int16_t>(pixels, box, to, as_float);
        case DType::float16:
            return load_as<std::uint16_t>(pixels, box, to, from_float16);
        case DType::bfloat16:
            return load_as<std::uint16_t>(pixels, box, to, from_bfloat16);
        case DType::float64:
            return load_as<double>(pixels, box, to, as_float);
        default:
            return load_as<float>(pixels, box, to, as_float);
    }
}

void load_rgba_row(const std::uint8_t* row, int y, PlanesView to) {
    for (int x = 0; x < to.width; ++x) {
        std::array<std::uint16_t, 4> pixel;
        std::memcpy(pixel.data(), row + x * sizeof pixel, sizeof pixel);
        if (to.channels == 1) {
            const std::uint32_t sum = pixel[0] * 19595U + pixel[1] * 38470U + pixel[2] * 7471U + 0x8000U;
            to.plane(0).row(y)[x] = static_cast<float>(sum >> 16);
            continue;
        }
        for (int c = 0; c < 3; ++c) {
            to.plane(c).row(y)[x] = static_cast<float>(pixel[static_cast<std::size_t>(c)]);
        }
    }
}

void load_pixels(ConstImageView pixels, PlanesView to) {
    for (int y = 0; y < to.height; ++y) {
        for (int c = 0; c < to.channels; ++c) {
            const std::uint8_t* from = pixels.row(y) + c;
            float* out = to.plane(c).row(y);
            for (int x = 0; x < to.width; ++x) {
                out[x] = static_cast<float>(from[std::ptrdiff_t{x} * pixels.channels]);
            }
        }
    }
}

}  // namespace stoker
