// The middle of a row is copied at once; pixels beyond the edge are copied one by one.
#include "stoker/ops/random_crop.h"

#include <fmt/format.h>

#include <algorithm>

#include "stoker/base/error.h"

namespace stoker {
namespace {

int drawn_offset(int length, int window, Rng& rng) {
    const std::uint32_t offset = rng.below(static_cast<std::uint32_t>(length - window + 1));
    return static_cast<int>(offset);
}

// Enlarges the padding `before` and `after` a line if the window does not fit.
void pad_to(int window, int length, int& before, int& after) {
    const int missing = window - (length + before + after);
    if (missing > 0) {
        before += missing;
        after += missing;
    }
}

void check(const RandomCrop& op, int height, int width) {
    constexpr int kMax = 1 << 20;
    const auto valid = [](int side, int least) { return side >= least && side <= kMax; };
    if (!valid(op.height, 1) || !valid(op.width, 1) || !valid(op.padding.left, 0) || !valid(op.padding.top, 0) ||
        !valid(op.padding.right, 0) || !valid(op.padding.bottom, 0)) {
        throw InvalidArgument(
            {.where = "random_crop",
             .expected = fmt::format("a size of 1 to {} and padding of 0 to {}", kMax, kMax),
             .got = fmt::format("{} x {}, padding {}, {}, {}, {}", op.height, op.width, op.padding.left, op.padding.top,
                                op.padding.right, op.padding.bottom)});
    }
    if (!valid(height, 1) || !valid(width, 1)) {
        throw DataError({}, {.where = "random_crop",
                             .expected = fmt::format("an image with sides of 1 to {}", kMax),
                             .got = fmt::format("{} x {}", height, width)});
    }
}

}  // namespace

int padded_source(int position, int length, PaddingMode mode) {
    if (position >= 0 && position < length) {
        return position;
    }
    if (mode == PaddingMode::constant) {
        return kOutside;
    }
    if (mode == PaddingMode::edge || length == 1) {
        return std::clamp(position, 0, length - 1);
    }
    const int repeated = mode == PaddingMode::symmetric ? 1 : 0;
    const int period = 2 * length - 2 + 2 * repeated;
    const int place = ((position % period) + period) % period;
    return place < length ? place : period - repeated - place;
}

Padding padding_for(const RandomCrop& op, int image_height, int image_width) {
    check(op, image_height, image_width);
    Padding padding = op.padding;
    if (op.pad_if_needed) {
        pad_to(op.height, image_height, padding.top, padding.bottom);
        pad_to(op.width, image_width, padding.left, padding.right);
    }
    return padding;
}

Box draw_random_crop(const RandomCrop& op, int image_height, int image_width, Rng& rng) {
    const Padding padding = padding_for(op, image_height, image_width);
    const int height = image_height + padding.top + padding.bottom;
    const int width = image_width + padding.left + padding.right;
    if (height < op.height || width < op.width) {
        throw DataError({}, {.where = "random_crop",
                             .expected = fmt::format("at least {} x {} pixels with padding", op.height, op.width),
                             .got = fmt::format("{} x {}", height, width),
                             .hint = "resize first, or set pad_if_needed = true"});
    }
    const int top = drawn_offset(height, op.height, rng) - padding.top;
    const int left = drawn_offset(width, op.width, rng) - padding.left;
    return {top, left, op.height, op.width};
}

void padded_crop(ConstImageView from, const Box& box, PaddingMode mode, const Color& fill, ImageView to) {
    if (to.height != box.height || to.width != box.width || to.channels != from.channels || from.channels < 1 ||
        from.channels > 4 || from.height < 1 || from.width < 1) {
        throw InvalidArgument(
            {.where = "random_crop",
             .expected = fmt::format("a target of ({}, {}, {})", box.height, box.width, from.channels),
             .got = fmt::format("({}, {}, {})", to.height, to.width, to.channels)});
    }
    const auto channels = static_cast<std::size_t>(from.channels);
    const int left = std::clamp(-box.left, 0, box.width);                  // box columns before the image
    const int right = std::clamp(from.width - box.left, left, box.width);  // first box column after the image
    const auto copy_pixel = [&](const std::uint8_t* row, int x, std::uint8_t* out) {
        const int column = row == nullptr ? kOutside : padded_source(box.left + x, from.width, mode);
        const std::uint8_t* in = column == kOutside ? fill.data() : row + static_cast<std::size_t>(column) * channels;
        std::copy_n(in, channels, out + static_cast<std::size_t>(x) * channels);
    };
    for (int y = 0; y < box.height; ++y) {
        std::uint8_t* out = to.row(y);
        const int source = padded_source(box.top + y, from.height, mode);
        const std::uint8_t* row = source == kOutside ? nullptr : from.row(source);
        const int middle_end = row == nullptr ? left : right;
        for (int x = 0; x < left; ++x) {
            copy_pixel(row, x, out);
        }
        if (middle_end > left) {
            std::copy_n(row + std::ptrdiff_t{box.left + left} * from.channels,
                        static_cast<std::size_t>(middle_end - left) * channels,
                        out + static_cast<std::size_t>(left) * channels);
        }
        for (int x = middle_end; x < box.width; ++x) {
            copy_pixel(row, x, out);
        }
    }
}

}  // namespace stoker
