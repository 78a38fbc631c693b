// Sizes, checks and the loop over output rows. row_resizer.cpp runs the two passes.
#include "stoker/ops/resize.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "stoker/base/error.h"
#include "stoker/ops/kernels.h"
#include "stoker/ops/row_resizer.h"

namespace stoker {
namespace {

std::string describe(ConstImageView view) {
    return fmt::format("({}, {}, {})", view.height, view.width, view.channels);
}

void check(ConstImageView from, ImageSize full, const Box& part, ConstImageView to) {
    if (from.height < 1 || from.width < 1 || to.height < 1 || to.width < 1 || from.channels < 1 || from.channels > 4 ||
        from.channels != to.channels) {
        throw InvalidArgument({.where = "resize",
                               .expected = "two images of at least 1 x 1 with the same 1 to 4 channels",
                               .got = fmt::format("{} to {}", describe(from), describe(to))});
    }
    if (part.top < 0 || part.left < 0 || part.height != to.height || part.width != to.width ||
        part.height > full.height - part.top || part.width > full.width - part.left) {
        throw InvalidArgument(
            {.where = "resize",
             .expected = fmt::format("a part within {} x {} of the size of its target {}", full.height, full.width,
                                     describe(to)),
             .got = fmt::format("{} x {} at ({}, {})", part.height, part.width, part.top, part.left)});
    }
}

}  // namespace

ImageSize resized_size(int image_height, int image_width, int size) {
    const std::int64_t shorter = std::min(image_height, image_width);
    const std::int64_t longer = std::max(image_height, image_width);
    if (shorter < 1 || size < 1) {
        throw InvalidArgument({.where = "resize",
                               .expected = "an image and a size of at least 1",
                               .got = fmt::format("{} x {} to {}", image_height, image_width, size)});
    }
    const std::int64_t other = size * longer / shorter;
    if (other > std::numeric_limits<int>::max()) {
        throw DataError({}, {.where = "resize",
                             .expected = "an image whose longer side stays below 2^31 pixels",
                             .got = fmt::format("{} x {} to {}", image_height, image_width, size)});
    }
    const int scaled = static_cast<int>(other);
    return image_height <= image_width ? ImageSize{size, scaled} : ImageSize{scaled, size};
}

Box resize_reads(const ResizeGeometry& geometry) {
    const auto& [source, full, part, flip, interpolation] = geometry;
    const ResizeTaps rows = resize_reach(source.height, full.height, part.top, part.height, interpolation);
    const ResizeTaps columns = resize_reach(source.width, full.width, part.left, part.width, interpolation);
    return {rows.first, columns.first, rows.count, columns.count};
}

void resize_with(const OpKernels& kernels, ConstImageView from, ImageSize full, const Box& part, ImageView to,
                 ResizeScratch& scratch, Interpolation interpolation) {
    check(from, full, part, to);
    const ResizeGeometry geometry{
        .source = {from.height, from.width}, .full = full, .part = part, .interpolation = interpolation};
    RowResizer lines(kernels, from, {0, 0, from.height, from.width}, geometry, scratch);
    for (int y = 0; y < to.height; ++y) {
        lines.next(to.row(y));
    }
}

void resize(ConstImageView from, ImageView to, ResizeScratch& scratch, Interpolation interpolation) {
    resize_with(best_kernels(), from, {to.height, to.width}, {0, 0, to.height, to.width}, to, scratch, interpolation);
}

}  // namespace stoker
