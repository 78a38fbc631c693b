#include "stoker/pipeline/late_images.h"

#include "stoker/codecs/dct/dct_pixels_cuda.h"
#include "stoker/ops/assemble_cuda.h"

namespace stoker {
namespace {

// Calls decode(CutBatch) and finish(AssembleBatch) for each group.
template <typename Decode, typename Finish>
void for_each_group(const LateImages& images, const Decode& decode, const Finish& finish) {
    const CutSlot slot(images.memory, images.samples);
    const LateDecode& late = images.decode;
    for (const CutGroup& group : images.groups) {
        decode({.memory = images.memory,
                .places = slot.places() + group.first,
                .n = static_cast<int>(group.count),
                .rows = group.rows,
                .pixels = group.pixels});
        finish({.memory = images.memory,
                .draws = slot.draws() + group.first,
                .n = static_cast<int>(group.count),
                .channels = late.channels,
                .to = late.to,
                .erased_value = late.erased_value,
                .out = images.out + static_cast<std::size_t>(group.first) * late.image_bytes()});
    }
}

}  // namespace

void make_images(const LateImages& images) {
    for_each_group(images, dct_pixels, assemble);
}

void make_images_cuda(const LateImages& images, void* stream) {
    for_each_group(
        images, [stream](const CutBatch& batch) { dct_pixels_cuda(batch, stream); },
        [stream](const AssembleBatch& batch) { assemble_cuda(batch, stream); });
}

bool make_images_cuda_works() {
    return dct_pixels_cuda_works() && assemble_cuda_works();
}

}  // namespace stoker
