// Drives the two passes. The horizontal pass takes kLanes rows at a time, turned on their side, so
// that its sums run over rows side by side for any number of channels; its results go through a
// ring just large enough for the vertical pass, so they stay in the cache.
#include "stoker/ops/resize.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "stoker/base/error.h"
#include "stoker/ops/kernels.h"
#include "stoker/ops/transpose.h"

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

// The rows of an image after the horizontal pass.
class ResizedRows {
  public:
    ResizedRows(ConstImageView from, ResizeScratch& scratch, const OpKernels& kernels)
        : from_(from.crop({0, scratch.horizontal.taps.front().first, from.height, scratch.horizontal.inputs()})),
          scratch_(scratch),
          kernels_(kernels),
          out_bytes_(scratch.horizontal.taps.size() * static_cast<std::size_t>(from.channels)) {
        scratch_.columns.resize(turned_bytes(from_.row_bytes()));
        scratch_.turned.resize(turned_bytes(out_bytes_));
    }

    // Rows y ... y + count - 1, count <= kLanes, to out(y) ... out(y + count - 1).
    template <typename Out>
    void write(int y, int count, Out out) const {
        const std::uint8_t* in[kLanes];
        std::uint8_t* to[kLanes];
        for (int lane = 0; lane < kLanes; ++lane) {
            in[lane] = from_.row(y + std::min(lane, count - 1));
            to[lane] = lane < count ? out(y + lane) : nullptr;
        }
        auto* columns = reinterpret_cast<std::uint8_t*>(scratch_.columns.data());
        auto* turned = reinterpret_cast<std::uint8_t*>(scratch_.turned.data());
        turn_rows(in, from_.row_bytes(), columns);
        kernels_.resize_columns(columns, scratch_.horizontal, from_.channels, turned);
        turn_back(turned, out_bytes_, to, count);
    }

  private:
    ConstImageView from_;
    ResizeScratch& scratch_;
    const OpKernels& kernels_;
    std::size_t out_bytes_;
};

void resize_widths(ConstImageView from, ImageView to, ResizeScratch& scratch, const OpKernels& kernels) {
    const ResizedRows rows(from, scratch, kernels);
    for (int y = 0; y < to.height; y += kLanes) {
        rows.write(y, std::min(kLanes, to.height - y), [&](int row) { return to.row(row); });
    }
}

// Output row y of the vertical pass, from the rows that `row` gives.
template <typename Row>
void resize_row(int y, Row row, ImageView to, ResizeScratch& scratch, const OpKernels& kernels) {
    const auto place = static_cast<std::size_t>(y);
    const ResizeTaps taps = scratch.vertical.taps[place];
    for (int k = 0; k < taps.count; ++k) {
        scratch.row_taps[static_cast<std::size_t>(k)] = row(taps.first + k);
    }
    const std::int32_t* weights = scratch.vertical.weights.data() + y * std::ptrdiff_t{scratch.vertical.stride};
    kernels.resize_rows(scratch.row_taps.data(), weights, taps.count, to.row(y), to.row_bytes());
}

void resize_heights(ConstImageView from, ImageView to, ResizeScratch& scratch, const OpKernels& kernels) {
    for (int y = 0; y < to.height; ++y) {
        resize_row(
            y, [&](int row) { return from.row(row); }, to, scratch, kernels);
    }
}

void resize_both(ConstImageView from, ImageView to, ResizeScratch& scratch, const OpKernels& kernels) {
    const ResizedRows rows(from, scratch, kernels);
    const int ring_rows = std::min(scratch.vertical.stride + kLanes, scratch.vertical.inputs());
    scratch.rows.reset(ring_rows, to.width, to.channels);
    const ImageView ring = scratch.rows.view();
    const ResizeTaps last = scratch.vertical.taps.back();
    int done = scratch.vertical.taps.front().first;
    for (int y = 0; y < to.height; ++y) {
        const ResizeTaps taps = scratch.vertical.taps[static_cast<std::size_t>(y)];
        while (done < taps.first + taps.count) {
            const int count = std::min(kLanes, last.first + last.count - done);
            rows.write(done, count, [&](int row) { return ring.row(row % ring_rows); });
            done += count;
        }
        resize_row(
            y, [&](int row) { return ring.row(row % ring_rows); }, to, scratch, kernels);
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

void resize_with(const OpKernels& kernels, ConstImageView from, ImageSize full, const Box& part, ImageView to,
                 ResizeScratch& scratch) {
    check(from, full, part, to);
    const bool widths = full.width != from.width;
    const bool heights = full.height != from.height;
    if (widths) {
        scratch.horizontal.build(from.width, full.width, part.left, part.width);
    } else {
        from = from.crop({0, part.left, from.height, part.width});
    }
    if (heights) {
        scratch.vertical.build(from.height, full.height, part.top, part.height);
        scratch.row_taps.resize(static_cast<std::size_t>(scratch.vertical.stride));
    } else {
        from = from.crop({part.top, 0, part.height, from.width});
    }
    if (widths && heights) {
        resize_both(from, to, scratch, kernels);
    } else if (widths) {
        resize_widths(from, to, scratch, kernels);
    } else if (heights) {
        resize_heights(from, to, scratch, kernels);
    } else {
        copy_pixels(from, to);
    }
}

void resize_part(ConstImageView from, ImageSize full, const Box& part, ImageView to, ResizeScratch& scratch) {
    resize_with(best_kernels(), from, full, part, to, scratch);
}

void resize(ConstImageView from, ImageView to, ResizeScratch& scratch) {
    resize_part(from, {to.height, to.width}, {0, 0, to.height, to.width}, to, scratch);
}

}  // namespace stoker
