// The colour loop in plain C++ for every processor, the choice of a set, and the loop over the rows of an image.
#include "stoker/ops/color_kernels.h"

#include <fmt/format.h>

#include "stoker/base/error.h"
#include "stoker/ops/color_loops.h"

namespace stoker {
namespace {

using color_loops::run;

void run_plain(std::uint8_t* pixels, std::size_t count, int channels, std::span<const ColorStage> stages) {
    run<false>(pixels, count, channels, stages);
}

std::uint64_t sum_plain(std::uint8_t* pixels, std::size_t count, int channels, std::span<const ColorStage> stages) {
    return run<true>(pixels, count, channels, stages);
}

// Calls `run_pixels(first, count)` for contiguous pixels: the whole image at once, or each row if rows are padded.
template <typename Run>
void each_run(ImageView image, Run run_pixels) {
    const auto rows = static_cast<std::size_t>(image.height);
    const auto width = static_cast<std::size_t>(image.width);
    if (image.stride == static_cast<std::ptrdiff_t>(image.row_bytes())) {
        run_pixels(image.data, rows * width);
        return;
    }
    for (int y = 0; y < image.height; ++y) {
        run_pixels(image.row(y), width);
    }
}

}  // namespace

const ColorKernels kPlainColorKernels{"plain", run_plain, sum_plain};

std::span<const ColorKernels> color_kernels() {
    static const std::vector<ColorKernels> sets = [] {
        std::vector<ColorKernels> all{kPlainColorKernels};
#if defined(__x86_64__)
        const std::vector<ColorKernels> wide = x86_color_kernels();
        all.insert(all.end(), wide.begin(), wide.end());
#endif
        return all;
    }();
    return sets;
}

void run_color(const ColorKernels& kernels, ImageView image, std::span<const ColorStage> stages) {
    each_run(image,
             [&](std::uint8_t* pixels, std::size_t count) { kernels.run(pixels, count, image.channels, stages); });
}

float run_color_to_mean(const ColorKernels& kernels, ImageView image, std::span<const ColorStage> stages) {
    std::uint64_t sum = 0;
    each_run(image, [&](std::uint8_t* pixels, std::size_t count) {
        sum += kernels.run_and_sum(pixels, count, image.channels, stages);
    });
    return static_cast<float>(static_cast<double>(sum) / (static_cast<double>(image.height) * image.width));
}

void check_color_channels(const char* where, ConstImageView image) {
    if ((image.channels != 1 && image.channels != 3) || image.height < 1 || image.width < 1) {
        throw DataError({}, {.where = where,
                             .expected = "an image of 1 or 3 channels, at least 1 x 1",
                             .got = fmt::format("({}, {}, {})", image.height, image.width, image.channels)});
    }
}

}  // namespace stoker
