// Images of any size in one block of memory to a batch of bytes: each is resized, cropped, flipped and erased. Where
// colours change, `colors` follows and erases. The parameters are drawn on the host (pipeline/transforms). Here are the
// parameters and the slow reference of assemble_cuda.
#pragma once

#include <cstdint>
#include <optional>
#include <type_traits>

#include "stoker/base/image.h"
#include "stoker/ops/affine.h"
#include "stoker/ops/output_draw.h"
#include "stoker/ops/resize.h"

namespace stoker {

// The draws for one sample. They travel to the device as bytes.
struct AssembleDraw {
    std::uint64_t image = 0;  // the place of its first byte in the block of memory; 0: no image, all pixels are 0
    Box window{};             // the stored part of the resize's source: all that the output reads
    ImageSize source{};       // of the resize
    ImageSize full{};
    std::int32_t top = 0;  // of the output, in the full size
    std::int32_t left = 0;
    std::int32_t flip_horizontal = 0;
    std::int32_t flip_vertical = 0;
    OutputDraw output = {};
    Interpolation interpolation = Interpolation::bilinear;  // or bicubic
};
static_assert(sizeof(AssembleDraw) == 136 && std::is_trivially_copyable_v<AssembleDraw>);

struct AssembleBatch {
    const std::byte* memory = nullptr;
    const AssembleDraw* draws = nullptr;  // (n)
    int n = 0;
    int channels = 3;
    ImageSize to{};
    std::optional<Color> erased_value{Color{}};  // empty: random bytes
    bool colors = false;                         // `colors` (ops/colors.h) changes colours and erases; this does not
    std::uint8_t* out = nullptr;                 // (n, to.height, to.width, channels)
};

// The kernel's blocks keep the weights of a resize in shared memory: those of all columns and of a band of rows.
inline constexpr int kAssembleBand = 8;
inline constexpr int kAssembleOutputs = 1024;                            // columns and rows of a band
inline constexpr int kAssembleWidth = kAssembleOutputs - kAssembleBand;  // of the output, at most
inline constexpr int kAssembleWeights = 8192;
bool assemble_fits(const ResizeGeometry& resizing);

// Throws InvalidArgument for an output that the kernel cannot make.
void require_assemble(const AssembleBatch& batch);

// In host memory, by the ops one after the other. Throws what they and require_assemble throw.
void assemble(const AssembleBatch& batch);

}  // namespace stoker
