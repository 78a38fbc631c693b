// Checks the JSON strictly: it comes from files.
#include "stoker/pack/pack_stats.h"

#include "stoker/base/error.h"

namespace stoker {

void add_stats(PackStats& sum, const PackStats& other) {
    sum.samples_in += other.samples_in;
    sum.bytes_in += other.bytes_in;
    sum.exif_lost += other.exif_lost;
    for (const auto& [reason, count] : other.kept) {
        sum.kept[reason] += count;
    }
    sum.skipped.insert(sum.skipped.end(), other.skipped.begin(), other.skipped.end());
}

nlohmann::ordered_json to_json(const PackStats& stats) {
    nlohmann::ordered_json skipped = nlohmann::ordered_json::array();
    for (const SkippedSample& sample : stats.skipped) {
        skipped.push_back({{"key", sample.key}, {"reason", sample.reason}});
    }
    return {{"samples_in", stats.samples_in},
            {"bytes_in", stats.bytes_in},
            {"kept", stats.kept},
            {"exif_lost", stats.exif_lost},
            {"skipped", std::move(skipped)}};
}

PackStats pack_stats_from_json(const nlohmann::ordered_json& json) {
    try {
        PackStats stats{.samples_in = json.at("samples_in").get<std::int64_t>(),
                        .bytes_in = json.at("bytes_in").get<std::int64_t>(),
                        .kept = json.at("kept").get<std::map<std::string, std::int64_t>>(),
                        .exif_lost = json.at("exif_lost").get<std::int64_t>(),
                        .skipped = {}};
        for (const auto& sample : json.at("skipped")) {
            stats.skipped.push_back({sample.at("key").get<std::string>(), sample.at("reason").get<std::string>()});
        }
        return stats;
    } catch (const nlohmann::json::exception& error) {
        throw DataError({}, {.where = "pack", .expected = "notes of an earlier packing", .got = error.what()});
    }
}

}  // namespace stoker
