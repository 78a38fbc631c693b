// Packs a recipe's training data, or a part of them to measure what packing would gain.
#pragma once

#include <filesystem>
#include <limits>
#include <optional>
#include <string>

#include "stoker/recipe/recipe.h"
#include "stoker/tune/tuner.h"

namespace stoker::cli {

struct PackLimits {
    double bytes = std::numeric_limits<double>::infinity();
    double seconds = std::numeric_limits<double>::infinity();
};

// About `samples` samples, spread over data.train, as `folder`/`codec`.stk; 0: all. With limits as many of them as a
// few samples, which are packed before, promise to fit. A part is not in the page cache afterwards. Empty if the codec
// is useless: dct for images that are not JPEGs, raw for images that data.exif turns. Throws IoError if not even a
// batch fits, or if packing takes twice as long as it may; Interrupted; and what `pack` throws.
std::optional<PackedPart> pack_part(const Recipe& recipe, const std::string& codec, std::int64_t samples,
                                    const std::filesystem::path& folder, const PackLimits& limits = {});

// Throws what pack_part would throw because `folder` already has other data, or data packed otherwise.
void require_packable(const Recipe& recipe, const std::filesystem::path& folder);

}  // namespace stoker::cli
