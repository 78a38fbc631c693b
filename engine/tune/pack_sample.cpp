#include "engine/tune/pack_sample.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fmt/format.h>
#include <memory>

#include "cli/terminal/signals.h"
#include "engine/tune/data_part.h"
#include "engine/tune/page_cache.h"
#include "stoker/base/byte_text.h"
#include "stoker/base/cpu_cores.h"
#include "stoker/base/error.h"
#include "stoker/pack/pack.h"
#include "stoker/pipeline/recipe_data.h"

namespace stoker::cli {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::int64_t kFewSamples = 32;  // tell the bytes and the time of a sample

double seconds_since(Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
}

PackOptions options_of(const Recipe& recipe, const std::string& codec) {
    return {.fields = open_options(recipe.data).fields,
            .transcode = {.codec = parse_pack_codec(codec), .first_frame = recipe.data.first_frame},
            .workers = cpu_cores().usable,
            .skip_bad = true};
}

PackResult pack_within(const Dataset& dataset, const fs::path& target, PackOptions options, double limit) {
    const auto begin = Clock::now();
    options.progress = [&](const PackProgress&) {
        check_interrupt();
        if (seconds_since(begin) > 2 * limit) {
            throw IoError({.where = "packing a part of the data",
                           .expected = fmt::format("an end within {:.1f} s", std::max(limit, 0.0)),
                           .got = "none: the time for it was spent"});
        }
    };
    return pack(dataset, target, options);
}

// Pixels that data.exif would have turned are not turned when they are packed.
bool is_useless(const PackResult& packed, const std::string& codec, const DataRecipe& data) {
    return packed.samples == 0 || (codec == "dct" && !packed.codecs.contains("dct")) ||
           (data.exif && packed.exif_lost > 0);
}

// How many of `samples` fit; 0 if the codec is useless for a few of them.
std::int64_t fitting(const std::shared_ptr<const Dataset>& dataset, std::int64_t samples, const fs::path& target,
                     const std::string& codec, const PackOptions& options, const PackLimits& limits,
                     const DataRecipe& data) {
    const auto begin = Clock::now();
    const PackResult few =
        pack_within(*part_of(dataset, std::min(samples, kFewSamples)), target, options, limits.seconds);
    std::error_code ignored;
    fs::remove_all(target, ignored);
    if (is_useless(few, codec, data)) {
        return 0;
    }
    const auto packed = static_cast<double>(few.samples);
    const double bytes = static_cast<double>(few.bytes_out) / packed;
    const double most = std::min(limits.bytes / bytes, limits.seconds / (seconds_since(begin) / packed));
    const auto fit = static_cast<std::int64_t>(std::min(static_cast<double>(samples), most));
    if (fit < std::min(samples, data.batch_size)) {
        throw IoError({.where = "packing a part of the data",
                       .expected = fmt::format("room and time for a batch of {}", data.batch_size),
                       .got = fmt::format("{} samples of {}", fit, byte_text(static_cast<std::int64_t>(bytes)))});
    }
    return fit;
}

struct Checked {};

}  // namespace

std::optional<PackedPart> pack_part(const Recipe& recipe, const std::string& codec, std::int64_t samples,
                                    const fs::path& folder, const PackLimits& limits) {
    const std::shared_ptr<const Dataset> all = open_dataset(recipe.data.train, Split::train, open_options(recipe.data));
    const PackOptions options = options_of(recipe, codec);
    if (samples > 0 && std::isfinite(limits.bytes + limits.seconds)) {
        samples = fitting(all, std::min(samples, all->size()), folder / ("few-" + codec + ".stk"), codec, options,
                          limits, recipe.data);
        if (samples == 0) {
            return std::nullopt;
        }
    }
    const PackResult packed = pack_within(*part_of(all, samples), folder / (codec + ".stk"), options, limits.seconds);
    if (is_useless(packed, codec, recipe.data)) {
        return std::nullopt;
    }
    if (samples > 0) {
        drop_from_page_cache(packed.path, /*write=*/true);
    }
    return PackedPart{.path = packed.path,
                      .bytes_per_sample = static_cast<double>(packed.bytes_out) / static_cast<double>(packed.samples),
                      .left_out = std::ssize(packed.skipped)};
}

void require_packable(const Recipe& recipe, const fs::path& folder) {
    for (const char* codec : {"dct", "raw"}) {
        const fs::path target = folder / (std::string(codec) + ".stk");
        if (!fs::exists(target)) {
            continue;
        }
        const auto dataset = open_dataset(recipe.data.train, Split::train, open_options(recipe.data));
        PackOptions options = options_of(recipe, codec);
        options.progress = [](const PackProgress&) { throw Checked(); };  // after the checks, before the work
        try {
            pack(*dataset, target, options);
        } catch (const Checked&) {
        }
    }
}

}  // namespace stoker::cli
