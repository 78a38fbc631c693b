// Makes a batch of images of one size in one block of memory, which may be a GPU's: gather by number, crop or
// random_resized_crop, flips, erasing, normalize. If colours change, it gathers bytes, and `colors` follows.
// pipeline/transforms/device_ops.h draws the parameters on the host. Here are the parameters and the slow reference of
// gather_cuda.
#pragma once

#include <cstdint>
#include <optional>
#include <type_traits>

#include "stoker/base/dtype.h"
#include "stoker/base/image.h"
#include "stoker/ops/affine.h"
#include "stoker/ops/normalize.h"
#include "stoker/ops/output_draw.h"
#include "stoker/ops/random_crop.h"
#include "stoker/ops/resize.h"

namespace stoker {

// The draws for one sample. They travel to the device as bytes.
struct GatherDraw {
    std::int64_t image = 0;  // its number in the block plus 1; 0: no image, all pixels are 0
    Box box{};               // of the image; without a resize it has the output's size and may reach outside
    std::int32_t flip_horizontal = 0;
    std::int32_t flip_vertical = 0;
    OutputDraw output = {};
};
static_assert(sizeof(GatherDraw) == 104 && std::is_trivially_copyable_v<GatherDraw>);

// The settings that all samples have in common.
struct GatherOps {
    bool resizes = false;                                   // the box is resized to the output's size
    Interpolation interpolation = Interpolation::bilinear;  // of the resize; the kernel has bilinear and bicubic
    PaddingMode mode = PaddingMode::constant;               // of pixels outside of the image
    Color fill{};                                           // of those, for `constant`
    std::optional<Color> erased_value{Color{}};             // empty: random bytes
    bool colors = false;  // `colors` (ops/colors.h) changes colours and erases; a gather of bytes leaves both out

    bool operator==(const GatherOps&) const = default;
};

struct GatherBatch {
    const std::uint8_t* images = nullptr;  // (images, from.height, from.width, channels), channels = 1..4
    ImageSize from{};
    int channels = 0;
    const GatherDraw* draws = nullptr;  // (n)
    int n = 0;
    ImageSize to{};
    GatherOps ops = {};
    NormalizeFactors factors = {};
    void* out = nullptr;
    // Of `out`: float32, float16 or bfloat16; or uint8, hwc, which is not normalised.
    DType dtype = DType::float32;
    Layout layout = Layout::chw;  // of `out`: (n, channels, to.height, to.width) or (n, to.height, to.width, channels)
};

// The weights of a resize are in a block's shared memory: at most so many rows and columns of the output, and so many
// weights of all of them; an output has resize_stride weights.
inline constexpr int kGatherOutputs = 512;
inline constexpr int kGatherWeights = 4096;
bool gather_fits(ImageSize from, ImageSize to, Interpolation interpolation = Interpolation::bilinear);

// In host memory, by the ops one after the other. Throws what they throw.
void gather(const GatherBatch& batch);

}  // namespace stoker
