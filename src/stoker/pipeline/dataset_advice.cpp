#include "stoker/pipeline/dataset_advice.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <new>
#include <vector>

#include "stoker/base/error.h"
#include "stoker/base/map_damage.h"
#include "stoker/codecs/codec.h"
#include "stoker/codecs/tiff.h"
#include "stoker/formats/image_kind.h"
#include "stoker/pipeline/read_sample.h"
#include "stoker/records/stages.h"

namespace stoker {
namespace {

// The largest value of some images of uint16 that run as such; 0 for other images.
float highest_of_16_bits(const Dataset& dataset, const Transform& transform) {
    constexpr std::int64_t kSamples = 16;
    float highest = 0;
    const Transform values;
    TransformScratch scratch;
    Sample sample;
    StageTimes times;
    StageClock clock(times, /*on=*/false);
    for (std::int64_t i = 0; i < std::min(kSamples, dataset.size()); ++i) {
        read_sample(dataset, i * dataset.size() / kSamples % dataset.size(), sample, {.count = 1});
        const FieldValue& image = first_image(sample);
        const bool has_16_bits = !image.encoded          ? image.dtype == DType::uint16
                                 : is_sound(image.bytes) ? false
                                 : is_tiff(image.bytes)  ? read_tiff_header(image.bytes).dtype == DType::uint16
                                                         : transform.takes_planes(image, scratch);
        if (!has_16_bits) {
            return 0;
        }
        highest = std::max(highest, value_range(values.planes(image, {}, scratch, clock))[1]);
    }
    return highest;
}

// That 8 of the first image's 16 bits are read, or the first of its pages.
std::string partly_read_advice(const Dataset& dataset, const Transform& transform, bool clips) {
    TransformScratch scratch;
    Sample sample;
    read_sample(dataset, 0, sample, {.count = 1});
    const FieldValue& image = first_image(sample);
    if (image.encoded && is_tiff(image.bytes)) {
        return !clips && sample.frames.empty() && tiff_pages(image.bytes, 2).size() > 1
                   ? "of TIFFs of several pages the first is read, all with data.frames"
                   : "";
    }
    if (!image.encoded || is_video(image.bytes) || is_sound(image.bytes) ||
        scratch.decoder.info(image.bytes).bits <= 8 || transform.takes_planes(image, scratch)) {
        return "";
    }
    return sniff_codec(image.bytes) == Codec::png
               ? "PNGs of 16 bits are reduced to 8, since an op of your own takes bytes"
               : "images of more than 8 bits are reduced to 8";
}

// Adds facts from samples.
void look_at_images(const Dataset& dataset, const Transform* transform, bool clips, std::vector<std::string>& advice) {
    const bool remote = dataset.path().find("://") != std::string::npos;  // a request, which may fail for a minute
    if (!dataset.has_image() || dataset.size() == 0 || remote) {
        return;
    }
    try {
        advice.push_back(partly_read_advice(dataset, transform != nullptr ? *transform : Transform(), clips));
        if (transform != nullptr && !transform->needs_planes()) {
            advice.push_back(few_bits_advice(highest_of_16_bits(dataset, *transform)));
        }
    } catch (const Error&) {  // reported when the sample is loaded, like all others
    } catch (const std::bad_alloc&) {
    }
    check_maps();
}

}  // namespace

std::string few_bits_advice(float high) {
    if (high <= 0 || high >= 1 << 15) {
        return "";
    }
    int bits = 2;
    while (static_cast<float>(1 << bits) <= high) {
        ++bits;
    }
    return fmt::format("{} bits in 16; {{op = \"window\", center = {}, width = {}}} makes them 0 to 1", bits,
                       (1 << bits) / 2, 1 << bits);
}

std::string dataset_advice(const Dataset& dataset, const Transform* transform, bool clips) {
    std::vector<std::string> advice = {dataset.advice()};
    look_at_images(dataset, transform, clips, advice);
    std::erase(advice, "");
    return fmt::format("{}", fmt::join(advice, "; "));
}

}  // namespace stoker
