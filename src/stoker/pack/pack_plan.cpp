// Builds the plan as JSON and describes differences between two plans.
#include "stoker/pack/pack_plan.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <optional>
#include <vector>

#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/base/hash.h"
#include "stoker/base/json_depth.h"
#include "stoker/formats/stk/stk_manifest.h"
#include "stoker/pack/packed_fields.h"
#include "stoker/recipe/values.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::array kSourceKeys = {"format", "samples", "bytes", "keys", "labels", "classes", "modified_ns"};
constexpr std::array kOptionKeys = {"image_field",    "label_field", "fields",     "context", "codec",
                                    "resize_shorter", "quality",     "shard_size", "part",    "first_frame"};

// "--shard-size 256MiB", "no --quality".
std::string option_text(std::string name, const Json& value) {
    if (name == "fields") {
        std::vector<std::string> options;
        for (const Json& field : value.is_array() ? value : Json::array()) {
            options.push_back(fmt::format("<--field {}>", field.is_string() ? field.get<std::string>() : field.dump()));
        }
        return options.empty() ? "no <--field>" : fmt::format("{}", fmt::join(options, " "));
    }
    std::ranges::replace(name, '_', '-');
    if (value.is_null() || value == 0) {
        return fmt::format("no <--{}>", name);
    }
    if (value == true) {
        return fmt::format("<--{} true>", name);
    }
    if (value.is_string()) {
        return fmt::format("<--{} {}>", name, value.get<std::string>());
    }
    if (name == "shard-size" && value.is_number_integer()) {
        return fmt::format("<--{} {}>", name, byte_size_text(value.get<std::int64_t>()));
    }
    return fmt::format("<--{} {}>", name, value.dump());
}

// Modification time of the file that represents the data set; empty if there is none. It is the only part of the plan
// that shows changed pixels in a file of the same size.
std::optional<std::int64_t> modified_ns(const fs::path& path) {
    for (const fs::path& file : {path, path / "data.mdb", path / kStkManifest}) {
        if (!path.empty() && is_file(file)) {
            return File(file).info().modified_ns;
        }
    }
    return std::nullopt;
}

}  // namespace

// Identifies the source by its content, as far as that is known without reading all samples. Its path is not used,
// since it may differ between machines.
Json plan_of(const Dataset& dataset, const PackOptions& options, bool shards) {
    constexpr std::int64_t kUnknown = -2;  // the label of a sample that has to be read
    std::uint64_t keys = 0;
    std::uint64_t labels = 0;
    std::uint64_t classes = 0;
    for (std::int64_t i = 0; i < dataset.size(); ++i) {
        const std::int64_t label = known_label(dataset, i).value_or(kUnknown);
        keys = hash_text(key_or_index(dataset, i), keys);
        labels = hash_bytes(std::as_bytes(std::span(&label, 1)), labels);
    }
    for (const std::string& name : dataset.classes()) {
        classes = hash_text(name, classes);
    }
    const auto hex = [](std::uint64_t hash) { return fmt::format("{:016x}", hash); };
    Json plan = {{"format", dataset.format()}, {"samples", dataset.size()}, {"bytes", dataset.bytes()},
                 {"keys", hex(keys)},          {"labels", hex(labels)},     {"classes", hex(classes)}};
    if (const auto modified = modified_ns(dataset.path())) {
        plan["modified_ns"] = *modified;
    }
    if (!options.fields.image.empty()) {
        plan["image_field"] = options.fields.image;
    }
    if (!options.fields.label.empty()) {
        plan["label_field"] = options.fields.label;
    }
    for (const Field& field : dataset.fields()) {
        const auto asked = std::ranges::find(options.fields.more, field.name, &FieldRequest::name);
        plan["fields"].push_back(field_text(field, asked == options.fields.more.end() ? "" : asked->from));
    }
    if (dataset.format() == "tokens") {  // windows of another length may be as many
        plan["context"] = dataset.fields().front().shape.front() - 1;
    }
    plan["codec"] = pack_codec_name(options.transcode.codec.value_or(PackCodec::keep));
    plan["resize_shorter"] = options.transcode.resize_shorter;
    plan["quality"] = options.transcode.quality;
    if (options.transcode.first_frame) {
        plan["first_frame"] = true;
    }
    if (shards) {
        plan["shard_size"] = options.shard_size;
    }
    if (options.part.count > 1) {
        plan["part"] = fmt::format("{}/{}", options.part.index, options.part.count);
    }
    return plan;
}

void check_plan(const std::string& directory, const std::string& origin, const Json& wanted, const std::string& done,
                const std::string& hint) {
    const Json parsed = parse_json<Json>(origin);
    const Json found = parsed.is_object() ? parsed.value("plan", Json()) : Json();
    if (!found.is_object()) {
        throw InvalidArgument({.where = directory,
                               .expected = "a data set that `stoker pack` wrote",
                               .got = "one of another program",
                               .hint = "name another target"});
    }
    const auto value = [](const Json& plan, const char* key) { return plan.value(key, Json()); };
    const auto differs = [&](const char* key) { return value(found, key) != value(wanted, key); };
    std::vector<std::string> expected;
    std::vector<std::string> got;
    for (const char* key : kOptionKeys) {
        if (differs(key)) {
            expected.push_back(option_text(key, value(found, key)));
            got.push_back(option_text(key, value(wanted, key)));
        }
    }
    if (std::ranges::any_of(kSourceKeys, differs)) {
        expected.emplace_back("the same source");
        got.emplace_back("another source, or one that has changed since");
    }
    if (!expected.empty()) {
        throw InvalidArgument(
            {.where = directory,
             .expected = fmt::format("{}, as the data set was {} with", fmt::join(expected, " and "), done),
             .got = fmt::format("{}", fmt::join(got, " and ")),
             .hint = hint});
    }
}

void add_stats(PackStats& sum, const PackStats& other) {
    sum.samples_in += other.samples_in;
    sum.bytes_in += other.bytes_in;
    sum.exif_lost += other.exif_lost;
    for (const auto& [reason, count] : other.kept) {
        sum.kept[reason] += count;
    }
    sum.skipped.insert(sum.skipped.end(), other.skipped.begin(), other.skipped.end());
}

Json to_json(const PackStats& stats) {
    Json skipped = Json::array();
    for (const SkippedSample& sample : stats.skipped) {
        skipped.push_back({{"key", sample.key}, {"reason", sample.reason}});
    }
    return {{"samples_in", stats.samples_in},
            {"bytes_in", stats.bytes_in},
            {"kept", stats.kept},
            {"exif_lost", stats.exif_lost},
            {"skipped", std::move(skipped)}};
}

PackStats pack_stats_from_json(const Json& json) {
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
