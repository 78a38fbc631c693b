// The inner loop of the colour ops, once per instruction set: a chain of steps over a run of pixels in one
// pass. Every set computes the same bits: float32, fused exactly where std::fma says so. Internal to ops/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "stoker/base/image.h"

namespace stoker {

enum class ColorStep {
    scale,     // x * factor
    contrast,  // x * factor + mean * rest
    saturate,  // x * factor + gray * rest
    hue,       // factor: turns of the colour circle
    gray,      // the pixel's gray in every channel
};

// Each step ends in whole levels 0..255, cut off and not rounded, as torchvision's casts do.
struct ColorStage {
    ColorStep step = ColorStep::scale;
    float factor = 1;
    float rest = 0;  // 1 - factor in torchvision's blends
    float mean = 0;
};

struct ColorKernels {
    const char* name;  // plain, avx2, avx512
    // Runs the stages on `pixels` (count, C), C = 1 or 3, in place. Of C = 1 only `scale` and
    // `contrast` change pixels.
    void (*run)(std::uint8_t* pixels, std::size_t count, int channels, std::span<const ColorStage> stages);
    // The same, and returns the sum of the results' grays; the gray of C = 1 is the pixel itself.
    std::uint64_t (*run_and_sum)(std::uint8_t* pixels, std::size_t count, int channels,
                                 std::span<const ColorStage> stages);
};

extern const ColorKernels kPlainColorKernels;

// The sets for vector instructions that this processor has, slowest first; empty off x86-64.
std::vector<ColorKernels> x86_color_kernels();

// All sets that this processor runs, slowest first; the ops use the last.
std::span<const ColorKernels> color_kernels();

// The kernels over a whole image, whose rows may be padded. The mean is that of the grays.
void run_color(const ColorKernels& kernels, ImageView image, std::span<const ColorStage> stages);
float run_color_to_mean(const ColorKernels& kernels, ImageView image, std::span<const ColorStage> stages);

// torchvision's rule for colour ops: 1 or 3 channels. `where` names the op in the error.
void check_color_channels(const char* where, ConstImageView image);

}  // namespace stoker
