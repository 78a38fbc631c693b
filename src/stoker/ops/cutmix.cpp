// From the last image to the first, so that each one's partner is still as it was.
#include "stoker/ops/cutmix.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "stoker/base/error.h"
#include "stoker/ops/batch_mix.h"

namespace stoker {
namespace {

// The box as runs of bytes within an image: `count` runs of `bytes`, of which run k begins at start(k).
struct Runs {
    std::size_t planes, plane_bytes;
    std::size_t rows, row_bytes;
    std::size_t first, bytes;

    std::size_t count() const { return planes * rows; }
    std::size_t start(std::size_t k) const { return k / rows * plane_bytes + k % rows * row_bytes + first; }
};

Runs runs_of(const TensorView& images, Layout layout, const Box& box) {
    const bool chw = layout == Layout::chw;
    const auto channels = static_cast<std::size_t>(images.shape[1]);
    const auto height = static_cast<std::size_t>(images.shape[2]);
    const auto width = static_cast<std::size_t>(images.shape[3]);
    const std::size_t pixel = item_size(images.dtype) * (chw ? 1 : channels);
    return {.planes = chw ? channels : 1,
            .plane_bytes = height * width * pixel,
            .rows = static_cast<std::size_t>(box.height),
            .row_bytes = width * pixel,
            .first = (static_cast<std::size_t>(box.top) * width + static_cast<std::size_t>(box.left)) * pixel,
            .bytes = static_cast<std::size_t>(box.width) * pixel};
}

void check(const TensorView& images, const Box& box) {
    if (images.shape.size() != 4 || images.shape[0] < 1 || box.top < 0 || box.left < 0 || box.height < 0 ||
        box.width < 0 || std::int64_t{box.top} + box.height > images.shape[2] ||
        std::int64_t{box.left} + box.width > images.shape[3]) {
        throw InvalidArgument({.where = "cutmix",
                               .expected = "a batch of at least one image in four dimensions, and a box within it",
                               .got = fmt::format("{} dimensions, {} x {} at ({}, {})", images.shape.size(), box.height,
                                                  box.width, box.top, box.left)});
    }
}

}  // namespace

CutMixParams draw_cutmix(const CutMix& op, int height, int width, Rng& rng) {
    if (height < 1 || width < 1) {
        throw InvalidArgument(
            {.where = "cutmix", .expected = "images of at least 1 x 1", .got = fmt::format("{} x {}", height, width)});
    }
    const double side = 0.5 * std::sqrt(1.0 - draw_beta(op.alpha, rng));
    const auto x = static_cast<int>(rng.below(static_cast<std::uint32_t>(width)));
    const auto y = static_cast<int>(rng.below(static_cast<std::uint32_t>(height)));
    const int half_width = static_cast<int>(side * width);
    const int half_height = static_cast<int>(side * height);
    const int left = std::max(x - half_width, 0);
    const int top = std::max(y - half_height, 0);
    const Box box{top, left, std::min(y + half_height, height) - top, std::min(x + half_width, width) - left};
    const double share = static_cast<double>(box.height) * box.width / (static_cast<double>(height) * width);
    return {box, 1.0 - share};
}

void cutmix(const TensorView& images, Layout layout, const Box& box, Buffer& scratch) {
    check(images, box);
    const Runs runs = runs_of(images, layout, box);
    const auto samples = static_cast<std::size_t>(images.shape[0]);
    const std::size_t size = images.bytes() / samples;
    if (runs.bytes == 0 || runs.count() == 0) {
        return;
    }
    scratch.resize(runs.count() * runs.bytes);
    std::byte* last = images.data + (samples - 1) * size;
    for (std::size_t k = 0; k < runs.count(); ++k) {
        std::memcpy(scratch.data() + k * runs.bytes, last + runs.start(k), runs.bytes);
    }
    for (std::size_t i = samples - 1; i > 0; --i) {
        std::byte* image = images.data + i * size;
        for (std::size_t k = 0; k < runs.count(); ++k) {
            std::memcpy(image + runs.start(k), image - size + runs.start(k), runs.bytes);
        }
    }
    for (std::size_t k = 0; k < runs.count(); ++k) {
        std::memcpy(images.data + runs.start(k), scratch.data() + k * runs.bytes, runs.bytes);
    }
}

}  // namespace stoker
