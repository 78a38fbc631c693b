#include "stoker/pipeline/late_images.h"

#include "stoker/codecs/dct/dct_pixels_cuda.h"
#include "stoker/ops/assemble_cuda.h"
#include "stoker/ops/colors_cuda.h"

namespace stoker {
namespace {

// Calls decode(CutBatch), finish(AssembleBatch) and, where colours change, recolor(ColorsBatch) for each group.
template <typename Decode, typename Finish, typename Recolor>
void for_each_group(const LateImages& images, const Decode& decode, const Finish& finish, const Recolor& recolor) {
    const CutSlot slot(images.memory, images.samples);
    const LateDecode& late = images.decode;
    for (const CutGroup& group : images.groups) {
        decode({.memory = images.memory,
                .places = slot.places() + group.first,
                .n = static_cast<int>(group.count),
                .rows = group.rows,
                .pixels = group.pixels});
        const AssembleDraw* const draws = slot.draws() + group.first;
        std::uint8_t* const out = images.out + static_cast<std::size_t>(group.first) * late.image_bytes();
        finish({.memory = images.memory,
                .draws = draws,
                .n = static_cast<int>(group.count),
                .channels = late.channels,
                .to = late.to,
                .erased_value = late.erased_value,
                .colors = late.colors,
                .out = out});
        if (late.colors) {
            recolor({.draws = &draws->output,
                     .stride = sizeof(AssembleDraw),
                     .n = static_cast<int>(group.count),
                     .size = late.to,
                     .channels = late.channels,
                     .erased_value = late.erased_value,
                     .images = out});
        }
    }
}

}  // namespace

void make_images(const LateImages& images) {
    for_each_group(images, dct_pixels, assemble, colors);
}

void make_images_cuda(const LateImages& images, void* stream) {
    for_each_group(
        images, [stream](const CutBatch& batch) { dct_pixels_cuda(batch, stream); },
        [stream](const AssembleBatch& batch) { assemble_cuda(batch, stream); },
        [stream](const ColorsBatch& batch) { colors_cuda(batch, stream); });
}

bool make_images_cuda_works() {
    return dct_pixels_cuda_works() && assemble_cuda_works() && colors_cuda_works();
}

}  // namespace stoker
