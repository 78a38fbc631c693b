// Arbitrary bytes as a dct record that a device decodes: the crop of a box has the decoder's pixels, or its error, also
// without vector sets. The reference implementation of the device's kernels reads the crop; ASan sees what it reads
// outside.
#include <algorithm>
#include <limits>

#include "fuzz/codecs/decode.h"
#include "stoker/codecs/dct/dct.h"
#include "stoker/codecs/dct/dct_pixels.h"

namespace {

using namespace stoker;
using namespace stoker::fuzz;

// Returns false for a record that is refused.
bool decodes_cut(DctCropper& cropper, std::span<const std::byte> record, const Choice& choice, Image& image) {
    std::span<const std::byte> crop;
    try {
        const ImageInfo info = cropper.open(record);
        crop = cropper.crop(choice.box(info.height, info.width), std::numeric_limits<std::size_t>::max());
    } catch (const DataError&) {
        return false;
    }
    const DctCrop& head = *reinterpret_cast<const DctCrop*>(crop.data());
    // The crop comes last, so that it ends where the memory ends.
    image.reset(head.box.height, head.box.width, 3);
    const std::size_t samples = (head.samples + kDctCropAlignment - 1) / kDctCropAlignment * kDctCropAlignment;
    const std::size_t pixels = (image.bytes() + kDctCropAlignment - 1) / kDctCropAlignment * kDctCropAlignment;
    std::vector<std::byte> memory(samples + pixels + crop.size());
    DctCropPlace place{.crop = samples + pixels, .samples = 0, .pixels = samples};
    std::ranges::copy(crop, memory.begin() + static_cast<std::ptrdiff_t>(place.crop));
    dct_pixels({.memory = memory.data(), .places = &place, .n = 1, .rows = head.rows});
    std::memcpy(image.view().data, memory.data() + place.pixels, image.bytes());
    return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto input = as_input(data, size);
    static Decoder decoder;
    if (input.size() < kChoice || !sniff_dct(input.subspan(kChoice)) || !is_small(decoder, input.subspan(kChoice))) {
        return 0;
    }
    const Choice choice(input.first(kChoice));
    const auto record = input.subspan(kChoice);
    static Image own;
    static Image expected;
    ChoiceSink sink(choice, 1, expected);
    const bool good = decodes(decoder, record, sink, {});
    static DctCropper best;
    static DctCropper plain(kPlainSegmentKernels, kPlainAnsKernels);
    for (DctCropper* cropper : {&best, &plain}) {
        require(decodes_cut(*cropper, record, choice, own) == good);
        if (good) {
            require_same(own.view(), expected.view());
        }
    }
    return 0;
}
