// The source columns are computed once for a block of output columns; an output row with the same source row as the one
// before is a copy of it.
#include "stoker/ops/nearest.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "stoker/base/error.h"

namespace stoker {
namespace {

constexpr int kBlock = 1024;  // output columns

// floor(position * length / resized) in float32, as in torch.
int source_of(int position, int length, int resized) {
    const float scale = static_cast<float>(length) / static_cast<float>(resized);
    return std::min(static_cast<int>(std::floor(static_cast<float>(position) * scale)), length - 1);
}

void check(ConstImageView from, const ResizeGeometry& geometry, ConstImageView to) {
    const auto& [source, full, part, flip, interpolation] = geometry;
    const bool inside = part.top >= 0 && part.left >= 0 && part.height <= full.height - part.top &&
                        part.width <= full.width - part.left;
    if (from.height != source.height || from.width != source.width || to.height != part.height ||
        to.width != part.width || !inside || from.channels != to.channels || from.channels < 1 || from.channels > 4 ||
        from.height < 1 || from.width < 1 || to.height < 1 || to.width < 1) {
        throw InvalidArgument({.where = "resize_nearest",
                               .expected = fmt::format("({}, {}, C) to ({}, {}, C) with C of 1 to 4", source.height,
                                                       source.width, part.height, part.width),
                               .got = fmt::format("({}, {}, {}) to ({}, {}, {})", from.height, from.width,
                                                  from.channels, to.height, to.width, to.channels)});
    }
}

template <int channels>
void copy_columns(const std::uint8_t* from, const int* offsets, int count, std::uint8_t* to) {
    for (int x = 0; x < count; ++x, to += channels) {
        for (int c = 0; c < channels; ++c) {
            to[c] = from[offsets[x] + c];
        }
    }
}

template <int channels>
void resize_channels(ConstImageView from, const ResizeGeometry& geometry, ImageView to) {
    const auto& [source, full, part, flip, interpolation] = geometry;
    int offsets[kBlock];  // bytes from the start of a source row
    for (int begin = 0; begin < to.width; begin += kBlock) {
        const int count = std::min(kBlock, to.width - begin);
        for (int x = 0; x < count; ++x) {
            const int column = flip ? part.width - 1 - (begin + x) : begin + x;
            offsets[x] = channels * source_of(part.left + column, source.width, full.width);
        }
        const std::ptrdiff_t first = std::ptrdiff_t{begin} * channels;
        int last = -1;
        for (int y = 0; y < to.height; ++y) {
            const int row = source_of(part.top + y, source.height, full.height);
            if (row == last) {
                std::memcpy(to.row(y) + first, to.row(y - 1) + first, static_cast<std::size_t>(count * channels));
            } else {
                copy_columns<channels>(from.row(row), offsets, count, to.row(y) + first);
            }
            last = row;
        }
    }
}

}  // namespace

void resize_nearest(ConstImageView from, ImageView to) {
    const ImageSize full{to.height, to.width};
    resize_nearest(from, {{from.height, from.width}, full, {0, 0, to.height, to.width}}, to);
}

void resize_nearest(ConstImageView from, const ResizeGeometry& geometry, ImageView to) {
    check(from, geometry, to);
    switch (from.channels) {
        case 1:
            return resize_channels<1>(from, geometry, to);
        case 2:
            return resize_channels<2>(from, geometry, to);
        case 3:
            return resize_channels<3>(from, geometry, to);
        default:
            return resize_channels<4>(from, geometry, to);
    }
}

}  // namespace stoker
