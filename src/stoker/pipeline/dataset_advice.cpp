#include "stoker/pipeline/dataset_advice.h"

#include <new>

#include "stoker/base/error.h"
#include "stoker/base/map_damage.h"
#include "stoker/codecs/codec.h"

namespace stoker {
namespace {

bool has_deep_image(const Dataset& dataset) {
    const bool remote = dataset.path().find("://") != std::string::npos;  // a request, which may fail for a minute
    if (!dataset.has_image() || dataset.size() == 0 || remote) {
        return false;
    }
    bool deep = false;
    try {
        Sample sample;
        dataset.read(0, sample);
        const bool png = sniff_codec(sample.bytes) == Codec::png;  // which keeps its depth
        deep = sample.encoded && !png && Decoder().info(sample.bytes).bits > 8;
    } catch (const Error&) {  // reported when the sample is loaded, like all others
    } catch (const std::bad_alloc&) {
    }
    check_maps();
    return deep;
}

}  // namespace

std::string dataset_advice(const Dataset& dataset) {
    std::string advice = dataset.advice();
    if (has_deep_image(dataset)) {
        advice += advice.empty() ? "" : "; ";
        advice += "PNMs of 16 bits are reduced to 8";
    }
    return advice;
}

}  // namespace stoker
