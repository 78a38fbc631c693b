// The tally's JSON, read as strictly as other bytes from outside.
#include "stoker/pack/tally.h"

#include "stoker/base/error.h"

namespace stoker {

void PackTally::add(const PackTally& other) {
    samples_in += other.samples_in;
    bytes_in += other.bytes_in;
    exif_lost += other.exif_lost;
    for (const auto& [reason, count] : other.kept) {
        kept[reason] += count;
    }
    skipped.insert(skipped.end(), other.skipped.begin(), other.skipped.end());
}

nlohmann::ordered_json to_json(const PackTally& tally) {
    nlohmann::ordered_json skipped = nlohmann::ordered_json::array();
    for (const SkippedSample& sample : tally.skipped) {
        skipped.push_back({{"key", sample.key}, {"reason", sample.reason}});
    }
    return {{"samples_in", tally.samples_in},
            {"bytes_in", tally.bytes_in},
            {"kept", tally.kept},
            {"exif_lost", tally.exif_lost},
            {"skipped", std::move(skipped)}};
}

PackTally tally_from_json(const nlohmann::ordered_json& json) {
    try {
        PackTally tally{.samples_in = json.at("samples_in").get<std::int64_t>(),
                        .bytes_in = json.at("bytes_in").get<std::int64_t>(),
                        .kept = json.at("kept").get<std::map<std::string, std::int64_t>>(),
                        .exif_lost = json.at("exif_lost").get<std::int64_t>(),
                        .skipped = {}};
        for (const auto& sample : json.at("skipped")) {
            tally.skipped.push_back({sample.at("key").get<std::string>(), sample.at("reason").get<std::string>()});
        }
        return tally;
    } catch (const nlohmann::json::exception& error) {
        throw DataError({}, {.where = "pack", .expected = "notes of an earlier packing", .got = error.what()});
    }
}

}  // namespace stoker
