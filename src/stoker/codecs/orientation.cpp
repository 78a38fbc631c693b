// All eight orientations are one loop over the stored pixels. They differ in where the first upright pixel lies and in
// the distances to its right and lower neighbours.
#include "stoker/codecs/orientation.h"

#include <fmt/format.h>

#include "stoker/base/error.h"

namespace stoker {
namespace {

struct Traversal {
    bool transposed;   // upright rows are stored columns
    bool from_right;   // upright pixel (0, 0) lies in the last stored column
    bool from_bottom;  // ... in the last stored row
};

Traversal traversal_of(int orientation) {
    switch (orientation) {
        case 1:
            return {.transposed = false, .from_right = false, .from_bottom = false};
        case 2:
            return {.transposed = false, .from_right = true, .from_bottom = false};
        case 3:
            return {.transposed = false, .from_right = true, .from_bottom = true};
        case 4:
            return {.transposed = false, .from_right = false, .from_bottom = true};
        case 5:
            return {.transposed = true, .from_right = false, .from_bottom = false};
        case 6:
            return {.transposed = true, .from_right = false, .from_bottom = true};
        case 7:
            return {.transposed = true, .from_right = true, .from_bottom = true};
        case 8:
            return {.transposed = true, .from_right = true, .from_bottom = false};
        default:
            throw InvalidArgument({.where = "orientation",
                                   .expected = "an EXIF orientation of 1 to 8",
                                   .got = fmt::format("{}", orientation)});
    }
}

// Mirrors the interval [first, first + length) on a side of `side` pixels, if `from_end`.
int mirrored(bool from_end, int first, int length, int side) {
    return from_end ? side - length - first : first;
}

}  // namespace

Box stored_box(const Box& upright, int orientation, int height, int width) {
    const Traversal order = traversal_of(orientation);
    Box box = upright;
    if (order.transposed) {
        box = {.top = upright.left, .left = upright.top, .height = upright.width, .width = upright.height};
    }
    box.top = mirrored(order.from_bottom, box.top, box.height, height);
    box.left = mirrored(order.from_right, box.left, box.width, width);
    return box;
}

void apply_orientation(ConstImageView image, int orientation, RowSink& sink) {
    const Traversal order = traversal_of(orientation);
    const int height = order.transposed ? image.width : image.height;
    const int width = order.transposed ? image.height : image.width;
    const std::ptrdiff_t column = order.from_right ? -image.channels : image.channels;
    const std::ptrdiff_t line = order.from_bottom ? -image.stride : image.stride;
    const std::ptrdiff_t right = order.transposed ? line : column;
    const std::ptrdiff_t down = order.transposed ? column : line;
    const std::uint8_t* first = image.row(order.from_bottom ? image.height - 1 : 0) +
                                (order.from_right ? std::ptrdiff_t{image.width - 1} * image.channels : 0);

    sink.start(height, width, image.channels);
    for (int y = 0; y < height; ++y) {
        const std::uint8_t* from = first + y * down;
        std::uint8_t* to = sink.row(y);
        for (int x = 0; x < width; ++x, from += right) {
            for (int c = 0; c < image.channels; ++c) {
                *to++ = from[c];
            }
        }
    }
}

}  // namespace stoker
