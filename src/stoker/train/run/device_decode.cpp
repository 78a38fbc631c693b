#include "stoker/train/run/device_decode.h"

#include <fmt/format.h>
#include <optional>

#include "stoker/base/error.h"
#include "stoker/bridge/device_images.h"
#include "stoker/pipeline/cut_plan.h"

namespace stoker {

void decode_on_device(const Dataset& dataset, const Transform& transform, const std::vector<OpSpec>& specs,
                      const at::Device& device, LoaderOptions& options) {
    if (const std::string why = why_no_decoder_on(device); !why.empty()) {
        throw Unsupported({.where = "data.decode_on",
                           .expected = "a GPU that this build has kernels for, for \"device\"",
                           .got = why,
                           .hint = "use data.decode_on = \"cpu\"; `stoker doctor` looks for GPUs"});
    }
    const CutPlan plan = plan_cuts(dataset, transform, specs);
    if (plan.cut_bytes == 0) {
        throw InvalidArgument({.where = "data.decode_on",
                               .expected = fmt::format("\"cpu\" or \"auto\" for {}", dataset.path()),
                               .got = fmt::format("\"device\": {}", plan.why_not),
                               .hint = ""});
    }
    options.cut_bytes = plan.cut_bytes;
}

void share_decoding(const Dataset& dataset, const Transform& transform, const std::vector<OpSpec>& specs,
                    const at::Device& device, LoaderOptions& options) {
    const bool cached = options.cache.bytes > 0 && !options.cache.encoded;
    if (options.images == nullptr && !cached && why_no_decoder_on(device).empty()) {
        options.cut_bytes = plan_cuts(dataset, transform, specs).cut_bytes;
        options.share_decoding = options.cut_bytes > 0;
    }
}

std::string decodes_on(const Loader& loader) {
    const std::optional<LateNormalize>& late = loader.field_specs().front().late;
    if (!late || !late->decode) {
        return "cpu";
    }
    return late->decode->shared ? "auto" : "device";
}

}  // namespace stoker
