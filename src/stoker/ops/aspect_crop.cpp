#include "stoker/ops/aspect_crop.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fmt/format.h>

#include "stoker/base/error.h"
#include "stoker/ops/crop.h"

namespace stoker {

std::vector<ImageSize> aspect_sizes(const AspectCrop& op) {
    if (op.size < 1 || op.step < 1 || op.size % op.step != 0 || !(op.max_ratio >= 1)) {
        throw InvalidArgument({.where = "aspect_crop",
                               .expected = "a size that is a multiple of the step, and a max_ratio of at least 1",
                               .got = fmt::format("size {}, step {}, max_ratio {}", op.size, op.step, op.max_ratio)});
    }
    const std::int64_t area = std::int64_t{op.size} * op.size;
    std::vector<ImageSize> sizes;
    const auto add = [&](std::int64_t height, std::int64_t width) {
        if (static_cast<double>(std::max(height, width)) <=
            static_cast<double>(op.max_ratio) * static_cast<double>(std::min(height, width))) {
            sizes.push_back({static_cast<int>(height), static_cast<int>(width)});
        }
    };
    for (std::int64_t side = op.step; side <= op.size; side += op.step) {  // the shorter
        const std::int64_t longer = area / side / op.step * op.step;
        add(longer, side);
        if (longer != side) {
            add(side, longer);
        }
    }
    // The larger of two sizes of one ratio stays.
    const auto narrower = [](ImageSize a, ImageSize b) {
        const std::int64_t left = std::int64_t{a.width} * b.height;
        const std::int64_t right = std::int64_t{b.width} * a.height;
        return left != right ? left < right : a.width > b.width;
    };
    std::ranges::sort(sizes, narrower);
    const auto same = [](ImageSize a, ImageSize b) {
        return std::int64_t{a.width} * b.height == std::int64_t{b.width} * a.height;
    };
    sizes.erase(std::unique(sizes.begin(), sizes.end(), same), sizes.end());
    return sizes;
}

std::size_t nearest_aspect(const std::vector<ImageSize>& sizes, ImageSize image) {
    const double wanted = std::log(static_cast<double>(image.width) / image.height);
    const auto distance = [&](ImageSize size) {
        return std::abs(std::log(static_cast<double>(size.width) / size.height) - wanted);
    };
    return static_cast<std::size_t>(std::ranges::min_element(sizes, {}, distance) - sizes.begin());
}

Box draw_aspect_crop(const AspectCrop& op, ImageSize image, ImageSize to, Rng& rng) {
    const double scale =
        std::min(static_cast<double>(image.height) / to.height, static_cast<double>(image.width) / to.width);
    Box box{.height = std::clamp(static_cast<int>(std::nearbyint(scale * to.height)), 1, image.height),
            .width = std::clamp(static_cast<int>(std::nearbyint(scale * to.width)), 1, image.width)};
    if (op.random) {
        box.top = static_cast<int>(rng.below(static_cast<std::uint32_t>(image.height - box.height + 1)));
        box.left = static_cast<int>(rng.below(static_cast<std::uint32_t>(image.width - box.width + 1)));
    } else {
        box = center_crop_box(image.height, image.width, box.height, box.width);
    }
    return box;
}

}  // namespace stoker
