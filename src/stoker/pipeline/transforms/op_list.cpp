// Facts of a list of ops: the size of its results, and whether it keeps the image in its place.
#include <algorithm>

#include "stoker/pipeline/transforms/transform.h"

namespace stoker {

bool gives_one_size(const std::vector<Op>& ops) {
    return std::ranges::any_of(ops, [](const Op& op) {
        const auto* resize = std::get_if<Resize>(&op);
        const auto* aspect = std::get_if<AspectCropOp>(&op);
        return (resize != nullptr && resize->size) || (aspect != nullptr && aspect->sizes.size() == 1) ||
               std::holds_alternative<CenterCrop>(op) || std::holds_alternative<RandomResizedCrop>(op) ||
               std::holds_alternative<RandomCrop>(op);
    });
}

const AspectCropOp* find_aspect_crop(const std::vector<Op>& ops) {
    const AspectCropOp* found = nullptr;
    for (const Op& op : ops) {
        const auto* const aspect = std::get_if<AspectCropOp>(&op);
        if (std::holds_alternative<Resize>(op) || std::holds_alternative<SoundOp>(op) ||
            (aspect != nullptr ? found != nullptr : gives_one_size({op}))) {
            return nullptr;
        }
        found = aspect != nullptr ? aspect : found;
    }
    return found;
}

bool keep_frame(const std::vector<Op>& ops) {
    return std::ranges::all_of(ops, [](const Op& op) {
        return std::holds_alternative<Resize>(op) || std::holds_alternative<Normalize>(op) ||
               std::holds_alternative<ToFloat>(op);
    });
}

}  // namespace stoker
