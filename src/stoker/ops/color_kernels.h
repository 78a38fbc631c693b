// The inner loop of the colour ops, one set for each instruction set: it runs several steps over contiguous pixels in
// one pass. All sets compute the same bits: float32, fused only where the code calls std::fma. Internal to ops/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "stoker/base/image.h"

namespace stoker {

enum class ColorStep : std::int32_t {
    scale,     // x * factor
    contrast,  // x * factor + mean * rest
    saturate,  // x * factor + gray * rest
    hue,       // factor: turns of the colour circle
    gray,      // every channel becomes the pixel's gray
};

// After each step, values are truncated to whole levels 0..255, as by torchvision's casts.
struct ColorStage {
    ColorStep step = ColorStep::scale;
    float factor = 1;
    float rest = 0;  // 1 - factor in torchvision's blends
    float mean = 0;
};

struct ColorKernels {
    const char* name;  // plain, avx2, avx512
    // Runs the stages on `pixels` (count, C), C = 1 or 3, in place. For C = 1 only `scale` and `contrast` have an
    // effect.
    void (*run)(std::uint8_t* pixels, std::size_t count, int channels, std::span<const ColorStage> stages);
    // The same, and returns the sum of the grays of the result. For C = 1 the gray is the pixel itself.
    std::uint64_t (*run_and_sum)(std::uint8_t* pixels, std::size_t count, int channels,
                                 std::span<const ColorStage> stages);
};

extern const ColorKernels kPlainColorKernels;

// The vector sets that this processor supports, slowest first. Only on x86-64.
std::vector<ColorKernels> x86_color_kernels();

// All sets that this processor supports, slowest first. The ops use the last.
std::span<const ColorKernels> color_kernels();

// Run the kernels over an image, whose rows may be padded. The second returns the mean of the grays of the result.
void run_color(const ColorKernels& kernels, ImageView image, std::span<const ColorStage> stages);
float run_color_to_mean(const ColorKernels& kernels, ImageView image, std::span<const ColorStage> stages);

// Checks for 1 or 3 channels, as torchvision does for colour ops. `where` is the op's name in the error.
// Throws DataError.
void check_color_channels(const char* where, ConstImageView image);

}  // namespace stoker
