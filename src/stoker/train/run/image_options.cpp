#include "stoker/train/run/image_options.h"

#include <algorithm>
#include <fmt/format.h>
#include <optional>

#include "stoker/base/error.h"
#include "stoker/bridge/device_images.h"
#include "stoker/pipeline/dct_crop_plan.h"
#include "stoker/pipeline/transforms/device_ops.h"

namespace stoker {
namespace {

// Why the device cannot do the ops after the first random one; empty where it can.
std::string why_ops_stay(const Transform& transform, const std::vector<OpSpec>& specs) {
    if (const auto found = find_not_gathered(transform.slice(OpRange::remaining))) {
        return fmt::format("{} {}", specs.at(found->op).name, found->why);
    }
    return "";
}

// The same for a resize whose weights do not fit; known when the images' size is.
std::string why_resize_stays(const Transform& transform, ImageSize image) {
    const GatherPlan plan = gather_plan(transform.slice(OpRange::remaining), image);
    if (!plan.ops.resizes || gather_fits(image, plan.to, plan.ops.interpolation)) {
        return "";
    }
    return fmt::format("a resize of {} x {} to {} x {} is too large for the kernel's shared memory", image.height,
                       image.width, plan.to.height, plan.to.width);
}

// The same for images of `channels` channels, which the CPU refuses, sample by sample.
std::string why_colors_stay(const Transform& transform, int channels) {
    const bool can = channels == 1 || channels == 3;
    return can || !output_ops(transform.slice(OpRange::remaining)).colors
               ? ""
               : fmt::format("colours change, and its images have {} channels", channels);
}

}  // namespace

void cache_on_device(const Dataset& dataset, const Transform& transform, const std::vector<OpSpec>& specs,
                     const at::Device& device, LoaderOptions& options) {
    if (const std::string why = why_no_images_on(device); !why.empty()) {
        throw Unsupported({.where = "data.cache",
                           .expected = "a GPU that this build has kernels for, for \"device\"",
                           .got = why,
                           .hint = "use data.cache = \"ram\"; `stoker doctor` looks for GPUs"});
    }
    options.why_not_indexed = options.clips.frames > 0   ? "its samples are clips"
                              : transform.needs_planes() ? "the ops make floats, which is done on the CPU"
                                                         : why_ops_stay(transform, specs);
    if (!options.why_not_indexed.empty()) {
        return;
    }
    DeviceImages memory(device);
    const auto fits = [&](ImageSize image) { return why_resize_stays(transform, image); };
    const std::int64_t most = std::get<PixelImages>(options.images).cache.bytes;
    const LoadedImages loaded = load_images(dataset, transform, memory, most, std::max(options.workers, 1), fits);
    options.why_not_indexed =
        loaded.table == nullptr ? loaded.why_not : why_colors_stay(transform, loaded.table->block()->channels);
    if (options.why_not_indexed.empty()) {
        options.images = IndexedImages{loaded.table};
    }
}

void decode_on_device(const Dataset& dataset, const Transform& transform, const std::vector<OpSpec>& specs,
                      const at::Device& device, LoaderOptions& options) {
    if (const std::string why = why_no_decoder_on(device); !why.empty()) {
        throw Unsupported({.where = "data.decode_on",
                           .expected = "a GPU that this build has kernels for, for \"device\"",
                           .got = why,
                           .hint = "use data.decode_on = \"cpu\"; `stoker doctor` looks for GPUs"});
    }
    const DctCropPlan plan = plan_dct_crops(dataset, transform, specs, options.jpeg_index != nullptr);
    if (plan.crop_bytes == 0 || transform.needs_planes()) {
        throw InvalidArgument(
            {.where = "data.decode_on",
             .expected = fmt::format("\"cpu\" or \"auto\" for {}", dataset.path()),
             .got = fmt::format("\"device\": {}", transform.needs_planes() ? "the ops make floats" : plan.why_not),
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
    // Not JPEGs: the host waits for the check of each batch of them, and no GPU has measured yet at what cost.
    constexpr bool kIndexed = false;
    if (const std::int64_t bytes = plan_dct_crops(dataset, transform, specs, kIndexed).crop_bytes; bytes > 0) {
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
