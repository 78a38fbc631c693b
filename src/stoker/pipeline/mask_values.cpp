#include "stoker/pipeline/mask_values.h"

#include <algorithm>

#include "stoker/base/error.h"
#include "stoker/base/map_damage.h"
#include "stoker/pipeline/transforms/transform.h"

namespace stoker {
namespace {

void add_mask(const FieldValue& value, TransformScratch& scratch, std::array<std::int64_t, 256>& counts) {
    StageTimes times;
    StageClock clock(times);
    ImageSize size{value.height, value.width};
    if (value.encoded) {
        const ImageInfo info = scratch.decoder.info(value.bytes);
        size = {info.height, info.width};
    }
    const Transform plain;
    const ConstImageView mask = plain.mask(value, size, OpRange::all, {}, scratch, clock);
    for (int y = 0; y < mask.height; ++y) {
        std::for_each(mask.row(y), mask.row(y) + mask.width, [&](std::uint8_t pixel) { ++counts[pixel]; });
    }
}

}  // namespace

std::array<std::int64_t, 256> count_mask_values(const Dataset& dataset, std::size_t field, std::int64_t most) {
    std::array<std::int64_t, 256> counts{};
    TransformScratch scratch;
    Sample sample;
    const std::int64_t size = dataset.size();
    const std::int64_t count = std::min(size, most);
    for (std::int64_t i = 0; i < count; ++i) {
        try {
            dataset.read(i * size / count, sample);
            const FieldValue& value = sample.field(field);
            for (const FieldValue& frame : value.frames) {
                add_mask(frame, scratch, counts);
            }
            if (value.frames.empty()) {
                add_mask(value, scratch, counts);
            }
        } catch (const DataError&) {  // reported when the sample is loaded
        } catch (const Unsupported&) {
        }
        check_maps();
    }
    return counts;
}

}  // namespace stoker
