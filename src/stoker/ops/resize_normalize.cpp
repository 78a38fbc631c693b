// Checks the arguments and selects the implementation: the kernel set's own, copying rows, or resizing row by row.
#include "stoker/ops/resize_normalize.h"

#include <fmt/format.h>

#include "stoker/base/error.h"
#include "stoker/ops/kernels.h"
#include "stoker/ops/row_resizer.h"
#include "stoker/ops/row_writer.h"

namespace stoker {
namespace {

bool contains(const Box& outer, const Box& inner) {
    return inner.top >= outer.top && inner.left >= outer.left && inner.top + inner.height <= outer.top + outer.height &&
           inner.left + inner.width <= outer.left + outer.width;
}

std::string describe(const Box& box) {
    return fmt::format("{} x {} at ({}, {})", box.height, box.width, box.top, box.left);
}

void check(ConstImageView from, const Box& window, const ResizeGeometry& geometry, const PixelTarget& target) {
    const auto& [source, full, part, flip, interpolation] = geometry;
    if (from.channels < 1 || from.channels > 4 || !is_pixel_dtype(target.dtype)) {
        throw InvalidArgument({.where = "resize_normalize",
                               .expected = "1 to 4 channels, and uint8, float16, bfloat16 or float32",
                               .got = fmt::format("{} channels to {}", from.channels, dtype_name(target.dtype))});
    }
    if (source.height < 1 || source.width < 1 || part.height < 1 || part.width < 1 || part.top < 0 || part.left < 0 ||
        part.height > full.height - part.top || part.width > full.width - part.left) {
        throw InvalidArgument({.where = "resize_normalize",
                               .expected = "an image and a part within its new size",
                               .got = fmt::format("{} x {} to {} x {}, of which {}", source.height, source.width,
                                                  full.height, full.width, describe(part))});
    }
    const Box reads = resize_reads(geometry);
    if (from.height != window.height || from.width != window.width || !contains(window, reads) ||
        !contains({0, 0, source.height, source.width}, window)) {
        throw InvalidArgument(
            {.where = "resize_normalize",
             .expected = fmt::format("a window of {} x {} with {}", source.height, source.width, describe(reads)),
             .got = fmt::format("{}, in pixels of {} x {}", describe(window), from.height, from.width)});
    }
}

void resize_by_rows(const OpKernels& kernels, const ResizeJob& job, ResizeScratch& scratch) {
    RowResizer lines(kernels, job.from, job.window, job.geometry, scratch);
    const RowWriter writer(kernels, job, scratch);
    scratch.line.reset(1, job.geometry.part.width, job.from.channels);
    const ImageView line = scratch.line.view();
    for (int y = 0; y < job.geometry.part.height; ++y) {
        lines.next(line.data);
        writer.write(line, y);
    }
}

// Crops without resizing. Contiguous rows are processed as one long row, which is faster.
void crop_by_rows(const OpKernels& kernels, ResizeJob job, ResizeScratch& scratch) {
    Box& part = job.geometry.part;
    const ConstImageView rows =
        job.from.crop({part.top - job.window.top, part.left - job.window.left, part.height, part.width});
    const bool no_gaps = rows.stride == static_cast<std::ptrdiff_t>(rows.row_bytes());
    constexpr int kMax = 1 << 30;
    if (no_gaps && part.height <= kMax / part.width && job.target.dtype == DType::float32) {
        part = {.height = 1, .width = part.height * part.width};
    }
    const RowWriter writer(kernels, job, scratch);
    for (int y = 0; y < part.height; ++y) {
        writer.write(rows.row(y), y);
    }
}

bool only_crops(const ResizeGeometry& geometry) {
    return geometry.full == geometry.source && !geometry.flip;
}

}  // namespace

bool is_pixel_dtype(DType dtype) {
    return dtype == DType::uint8 || dtype == DType::float16 || dtype == DType::bfloat16 || dtype == DType::float32;
}

void resize_normalize_with(const OpKernels& kernels, ConstImageView from, const Box& window,
                           const ResizeGeometry& geometry, const NormalizeFactors& factors, const PixelTarget& target,
                           ResizeScratch& scratch) {
    check(from, window, geometry, target);
    const ResizeJob job{from, window, geometry, factors, target};
    // Without resize and flip, rows go directly to the target. With streaming the one-pass kernel is still faster: its
    // trivial weights cost less than streaming saves.
    const bool one_pass = kernels.resize_normalize != nullptr;
    if (only_crops(geometry) && !(one_pass && target.streamed)) {
        crop_by_rows(kernels, job, scratch);
        return;
    }
    if (!one_pass || !kernels.resize_normalize(job, scratch)) {
        resize_by_rows(kernels, job, scratch);
    }
}

void resize_normalize(ConstImageView from, const Box& window, const ResizeGeometry& geometry,
                      const NormalizeFactors& factors, const PixelTarget& target, ResizeScratch& scratch) {
    resize_normalize_with(best_kernels(), from, window, geometry, factors, target, scratch);
}

}  // namespace stoker
