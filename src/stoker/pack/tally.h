// What a packing has seen and done, shard by shard, so that a resumed one can report on the whole. It lies
// as JSON in the data set's manifest.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "stoker/pack/pack.h"

namespace stoker {

struct PackTally {
    std::int64_t samples_in = 0;               // of the source, with those left out
    std::int64_t bytes_in = 0;                 // of the samples as the source gave them
    std::map<std::string, std::int64_t> kept;  // reason: images that are not in the codec that was asked for
    std::int64_t exif_lost = 0;                // images whose EXIF orientation the new bytes do not carry
    std::vector<SkippedSample> skipped;

    void add(const PackTally& other);
};

nlohmann::ordered_json to_json(const PackTally& tally);
// Throws DataError for another document.
PackTally tally_from_json(const nlohmann::ordered_json& json);

}  // namespace stoker
