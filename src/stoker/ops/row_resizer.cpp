// The horizontal pass processes kLanes transposed rows at a time, so that vector lanes are rows, for any number of
// channels. Its results go to a ring that is just large enough for the vertical pass, so they stay in the cache.
#include "stoker/ops/row_resizer.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>

#include "stoker/base/error.h"
#include "stoker/ops/transpose.h"

namespace stoker {
namespace {

// A few rows take kLanes times their bytes. A longer row is not a picture's, and would take gigabytes.
constexpr std::size_t kLongestRow = std::size_t{64} << 20;

}  // namespace

RowResizer::RowResizer(const OpKernels& kernels, ConstImageView from, const Box& window, const ResizeGeometry& geometry,
                       ResizeScratch& scratch)
    : kernels_(kernels),
      scratch_(scratch),
      out_bytes_(static_cast<std::size_t>(geometry.part.width) * static_cast<std::size_t>(from.channels)),
      horizontal_(geometry.full.width != geometry.source.width),
      vertical_(geometry.full.height != geometry.source.height) {
    const Box reads = resize_reads(geometry);
    from_ = from.crop({reads.top - window.top, reads.left - window.left, reads.height, reads.width});
    ring_rows_ = kLanes;
    if (vertical_) {
        const Box& part = geometry.part;
        scratch.vertical.build(geometry.source.height, geometry.full.height, part.top, part.height,
                               geometry.interpolation);
        scratch.row_taps.resize(static_cast<std::size_t>(scratch.vertical.stride));
        ring_rows_ = std::min(scratch.vertical.stride + kLanes, reads.height);
    }
    if (horizontal_) {
        if (from_.row_bytes() > kLongestRow) {
            throw DataError({}, {.where = "resize",
                                 .expected = fmt::format("rows of at most {} bytes", kLongestRow),
                                 .got = fmt::to_string(from_.row_bytes())});
        }
        scratch.horizontal.build(geometry.source.width, geometry.full.width, geometry.part.left, geometry.part.width,
                                 geometry.interpolation);
        // The kernels read beyond a row: into the next.
        const bool ordered =
            from_.stride >= static_cast<std::ptrdiff_t>(from_.row_bytes()) && from_.row_bytes() >= kShrinkOverread;
        if (kernels.shrink != nullptr && ordered && shrinks_much(geometry, from.channels) &&
            scratch.shrink.filter.build(scratch.horizontal)) {
            shrink_.emplace(*kernels.shrink, scratch.vertical, out_bytes_, scratch.shrink);
            scratch.shrink.rows.resize(from_.row_bytes() + kShrinkOverread);
            std::memcpy(scratch.shrink.rows.data(), from_.row(from_.height - 1), from_.row_bytes());
            std::memset(scratch.shrink.rows.data() + from_.row_bytes(), 0, kShrinkOverread);
            return;
        }
        scratch.columns.resize(transposed_bytes(from_.row_bytes()));
        scratch.transposed.resize(transposed_bytes(out_bytes_));
        scratch.rows.reset(std::max(ring_rows_, 1), geometry.part.width, from.channels);
    }
}

void RowResizer::next(std::uint8_t* out) {
    const int y = y_++;
    if (shrink_) {
        while (shrink_->quads() < shrink_->quads_for(y)) {
            add_quad();
        }
        shrink_->write(y, out);
        return;
    }
    if (!vertical_) {
        std::copy_n(row(y), out_bytes_, out);
        return;
    }
    const ResizeAxis& axis = scratch_.vertical;
    const ResizeTaps taps = axis.taps[static_cast<std::size_t>(y)];
    const int first = taps.first - axis.taps.front().first;
    for (int k = 0; k < taps.count; ++k) {
        scratch_.row_taps[static_cast<std::size_t>(k)] = row(first + k);
    }
    const std::int32_t* weights = axis.weights.data() + y * std::ptrdiff_t{axis.stride};
    kernels_.resize_rows(scratch_.row_taps.data(), weights, taps.count, out, out_bytes_);
}

// The kernel reads beyond a row: the next row, or zeros behind the copy of the last.
void RowResizer::add_quad() {
    const std::uint8_t* rows[kShrinkRows];
    for (int r = 0; r < kShrinkRows; ++r) {
        const int y = shrink_->quads() * kShrinkRows + r;
        rows[r] =
            y < from_.height - 1 ? from_.row(y) : reinterpret_cast<const std::uint8_t*>(scratch_.shrink.rows.data());
    }
    shrink_->add(rows);
}

const std::uint8_t* RowResizer::row(int y) {
    if (!horizontal_) {
        return from_.row(y);
    }
    while (filtered_ <= y) {
        run_horizontal_pass();
    }
    return scratch_.rows.view().row(y % ring_rows_);
}

// Filters the next kLanes rows, or fewer at the end.
void RowResizer::run_horizontal_pass() {
    const int count = std::min(kLanes, from_.height - filtered_);
    const ImageView ring = scratch_.rows.view();
    const std::uint8_t* in[kLanes];
    std::uint8_t* to[kLanes];
    for (int lane = 0; lane < kLanes; ++lane) {
        in[lane] = from_.row(filtered_ + std::min(lane, count - 1));
        to[lane] = lane < count ? ring.row((filtered_ + lane) % ring_rows_) : nullptr;
    }
    auto* columns = reinterpret_cast<std::uint8_t*>(scratch_.columns.data());
    auto* transposed = reinterpret_cast<std::uint8_t*>(scratch_.transposed.data());
    transpose_rows(in, from_.row_bytes(), columns);
    kernels_.resize_columns(columns, scratch_.horizontal, from_.channels, transposed);
    untranspose_rows(transposed, out_bytes_, to, count);
    filtered_ += count;
}

}  // namespace stoker
