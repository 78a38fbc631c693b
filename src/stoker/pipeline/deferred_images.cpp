#include "stoker/pipeline/deferred_images.h"

#include "stoker/codecs/dct/dct_pixels_cuda.h"
#include "stoker/ops/assemble_cuda.h"
#include "stoker/ops/colors_cuda.h"

namespace stoker {
namespace {

// Calls decode(DctCropBatch), finish(AssembleBatch) and, if colours change, recolor(ColorsBatch) for each group.
template <typename Decode, typename Finish, typename Recolor>
void for_each_group(const DeferredImages& images, const Decode& decode, const Finish& finish, const Recolor& recolor) {
    const DctCropSlot slot(images.memory, images.samples);
    const DeferredDecode& deferred = images.decode;
    for (const DctCropGroup& group : images.groups) {
        decode({.memory = images.memory,
                .places = slot.places() + group.first,
                .n = static_cast<int>(group.count),
                .rows = group.rows,
                .pieces = group.pieces,
                .pixels = group.pixels});
        const AssembleDraw* const draws = slot.draws() + group.first;
        std::uint8_t* const out = images.out + static_cast<std::size_t>(group.first) * deferred.image_bytes();
        finish({.memory = images.memory,
                .draws = draws,
                .n = static_cast<int>(group.count),
                .channels = deferred.channels,
                .to = deferred.to,
                .erased_value = deferred.erased_value,
                .colors = deferred.colors,
                .out = out});
        if (deferred.colors) {
            recolor({.draws = &draws->output,
                     .stride = sizeof(AssembleDraw),
                     .n = static_cast<int>(group.count),
                     .size = deferred.to,
                     .channels = deferred.channels,
                     .erased_value = deferred.erased_value,
                     .images = out});
        }
    }
}

}  // namespace

void make_images(const DeferredImages& images) {
    for_each_group(images, dct_pixels, assemble, colors);
}

void make_images_cuda(const DeferredImages& images, void* stream) {
    for_each_group(
        images, [stream](const DctCropBatch& batch) { dct_pixels_cuda(batch, stream); },
        [stream](const AssembleBatch& batch) { assemble_cuda(batch, stream); },
        [stream](const ColorsBatch& batch) { colors_cuda(batch, stream); });
}

bool make_images_cuda_works() {
    return dct_pixels_cuda_works() && assemble_cuda_works() && colors_cuda_works();
}

}  // namespace stoker
