// Packs a part of a recipe's training data into a temporary folder, to measure what packing would gain.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "stoker/recipe/recipe.h"

namespace stoker::cli {

struct PackedPart {
    std::filesystem::path path;
    double bytes_per_sample = 0;
};

// About `samples` samples, spread over data.train, as `folder`/`codec`.stk; 0: all. Empty where the codec has no use:
// dct for images that are not JPEGs.
std::optional<PackedPart> pack_part(const Recipe& recipe, const std::string& codec, std::int64_t samples,
                                    const std::filesystem::path& folder);

}  // namespace stoker::cli
