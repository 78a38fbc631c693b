#include "stoker/train/run/device_decode.h"

#include <fmt/format.h>
#include <optional>

#include "stoker/base/error.h"
#include "stoker/bridge/device_images.h"
#include "stoker/pipeline/dct_crop_plan.h"

namespace stoker {

void decode_on_device(const Dataset& dataset, const Transform& transform, const std::vector<OpSpec>& specs,
                      const at::Device& device, LoaderOptions& options) {
    if (const std::string why = why_no_decoder_on(device); !why.empty()) {
        throw Unsupported({.where = "data.decode_on",
                           .expected = "a GPU that this build has kernels for, for \"device\"",
                           .got = why,
                           .hint = "use data.decode_on = \"cpu\"; `stoker doctor` looks for GPUs"});
    }
    const DctCropPlan plan = plan_dct_crops(dataset, transform, specs);
    if (plan.crop_bytes == 0) {
        throw InvalidArgument({.where = "data.decode_on",
                               .expected = fmt::format("\"cpu\" or \"auto\" for {}", dataset.path()),
                               .got = fmt::format("\"device\": {}", plan.why_not),
                               .hint = ""});
    }
    if (const auto* const pixels = std::get_if<PixelImages>(&options.images)) {
        options.images = PackedImages{.crop_bytes = plan.crop_bytes, .cache = pixels->cache};
    }
}

void share_decoding(const Dataset& dataset, const Transform& transform, const std::vector<OpSpec>& specs,
                    const at::Device& device, LoaderOptions& options) {
    const auto* const pixels = std::get_if<PixelImages>(&options.images);
    const bool keeps_pixels = pixels != nullptr && pixels->cache.bytes > 0 && !pixels->cache_encoded;
    if (pixels == nullptr || keeps_pixels || !why_no_decoder_on(device).empty()) {
        return;
    }
    if (const std::int64_t bytes = plan_dct_crops(dataset, transform, specs).crop_bytes; bytes > 0) {
        options.images = PackedImages{.crop_bytes = bytes, .shared = true, .cache = pixels->cache};
    }
}

std::string decodes_on(const Loader& loader) {
    const std::optional<DeferredNormalize>& deferred = loader.field_specs().front().deferred;
    if (!deferred || !deferred->decode) {
        return "cpu";
    }
    return deferred->decode->shared ? "auto" : "device";
}

}  // namespace stoker
