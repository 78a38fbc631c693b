// The crops of a sample take at most about the bytes of its record or JPEG, whatever the ops crop. A slot has room for
// a quarter more than the mean of a few records; a batch that needs even more has some of its images made by the host.
#include "stoker/pipeline/dct_crop_plan.h"

#include <algorithm>
#include <exception>
#include <fmt/format.h>

#include "stoker/base/error.h"
#include "stoker/codecs/dct/dct.h"
#include "stoker/pipeline/read_sample.h"
#include "stoker/pipeline/transforms/device_ops.h"

namespace stoker {
namespace {

constexpr std::int64_t kSamples = 16;
constexpr std::int64_t kMostBytes = std::int64_t{1} << 20;  // of a sample's share of a slot

std::string why_ops_stay(const Transform& transform, const std::vector<OpSpec>& specs) {
    if (const auto found = find_not_dct_crop(transform.slice(OpRange::all))) {
        return fmt::format("{} {}", specs.at(found->op).name, found->why);
    }
    if (transform.options().decode == DecodeMode::fast) {
        return "data.decode = \"fast\" is done on the CPU";
    }
    return transform.options().channels == 1 ? "data.channels = 1 is done on the CPU" : "";
}

// Whether a device can decode the image. Workers also decode JPEGs with restart markers, which their headers may not
// show.
bool has_crops(const Sample& sample, bool indexed, Decoder& decoder) {
    return sample.encoded && (sniff_dct(sample.bytes) ||
                              (indexed && is_indexed_jpeg(sample.bytes) && !decoder.info(sample.bytes).progressive));
}

}  // namespace

DctCropPlan plan_dct_crops(const Dataset& dataset, const Transform& transform, const std::vector<OpSpec>& specs,
                           bool indexed) {
    if (!dataset.has_image()) {
        return {.crop_bytes = 0, .why_not = "its samples have no image"};
    }
    if (std::string why = why_ops_stay(transform, specs); !why.empty()) {
        return {.crop_bytes = 0, .why_not = std::move(why)};
    }
    Sample sample;
    Decoder decoder;
    bool has_crop = false;
    std::int64_t good = 0;
    std::int64_t records = 0;
    std::int64_t bytes = 0;
    std::exception_ptr failure;  // of the system
    std::vector<std::int64_t> tried(static_cast<std::size_t>(std::min(kSamples, dataset.size())));
    for (std::size_t i = 0; i < tried.size(); ++i) {
        tried[i] = static_cast<std::int64_t>(i) * dataset.size() / std::ssize(tried);
    }
    dataset.prefetch(tried);
    for (const std::int64_t index : tried) {
        try {
            try {
                read_sample(dataset, index, sample);
                has_crop = has_crops(sample, indexed, decoder);
            } catch (...) {
                rethrow_located(dataset, index);
            }
        } catch (const DataError&) {
            continue;  // the loader reports it, if it comes to it
        } catch (const Error&) {
            failure = std::current_exception();
            continue;
        }
        ++good;
        if (has_crop) {
            ++records;
            bytes += static_cast<std::int64_t>(sample.bytes.size());
        }
    }
    if (good == 0 && failure) {
        std::rethrow_exception(failure);
    }
    if (records == 0) {
        return {.crop_bytes = 0,
                .why_not =
                    "its images are neither dct records, which `stoker pack --codec dct` makes of JPEGs, nor "
                    "baseline JPEGs of 8 KiB and more with data.jpeg_index"};
    }
    return {.crop_bytes = std::min(bytes / records * 5 / 4, kMostBytes), .why_not = ""};
}

}  // namespace stoker
