// The manifest as JSON. 64-bit hashes are hexadecimal text, because JSON numbers are doubles to many readers.
#include "stoker/formats/stk_manifest.h"

#include <charconv>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <system_error>

#include "stoker/base/error.h"
#include "stoker/base/file.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::uintmax_t kMaxManifest = std::uintmax_t{1} << 30;
constexpr std::size_t kMaxShards = 1'000'000;

[[noreturn]] void refuse(const fs::path& path, const std::string& expected, const std::string& got) {
    throw DataError({.path = path.string()}, {.where = "stk", .expected = expected, .got = got});
}

std::string text_of(const Json& json) {
    return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::uint64_t natural(const fs::path& path, const Json& json, const char* name) {
    const auto found = json.find(name);
    if (found == json.end() || !found->is_number_unsigned()) {
        refuse(path, fmt::format("a natural number \"{}\"", name), found == json.end() ? "none" : text_of(*found));
    }
    return found->get<std::uint64_t>();
}

std::uint64_t hash_in(const fs::path& path, const Json& json) {
    const auto found = json.find("hash");
    const std::string text = found != json.end() && found->is_string() ? found->get<std::string>() : "";
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
    if (text.size() != 16 || error != std::errc{} || end != text.data() + text.size()) {
        refuse(path, "a \"hash\" of 16 hexadecimal digits", found == json.end() ? "none" : text_of(*found));
    }
    return value;
}

}  // namespace

std::uint64_t StkManifest::samples() const {
    std::uint64_t sum = 0;
    for (const StkShardInfo& shard : shards) {
        sum += shard.samples;
    }
    return sum;
}

std::string compact_json(const std::string& json) {
    return text_of(Json::parse(json));
}

bool holds_stk(const fs::path& directory) {
    std::error_code unknown;  // what cannot be asked for is not there
    return fs::exists(directory / kStkManifest, unknown) || fs::exists(directory / kStkPartManifest, unknown);
}

void write_manifest(const fs::path& path, const StkManifest& manifest) {
    Json shards = Json::array();
    for (std::size_t i = 0; i < manifest.shards.size(); ++i) {
        const StkShardInfo& shard = manifest.shards[i];
        Json entry = {{"samples", shard.samples}, {"bytes", shard.bytes}, {"hash", fmt::format("{:016x}", shard.hash)}};
        if (i < manifest.notes.size()) {
            entry["notes"] = Json::parse(manifest.notes[i]);
        }
        shards.push_back(std::move(entry));
    }
    const Json json = {{"format", "stk"},
                       {"version", kStkVersion},
                       {"samples", manifest.samples()},
                       {"origin", Json::parse(manifest.origin)},
                       {"shards", std::move(shards)}};
    write_file(path, json.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

StkManifest read_manifest(const fs::path& path) {
    std::error_code unknown;
    if (const std::uintmax_t size = fs::file_size(path, unknown); !unknown && size > kMaxManifest) {
        refuse(path, "the manifest of an stk data set", fmt::format("a file of {} bytes", size));
    }
    const Json json = Json::parse(read_text(path), nullptr, /*allow_exceptions=*/false);
    if (!json.is_object() || json.value("format", Json()) != "stk") {
        refuse(path, "the manifest of an stk data set", "something else");
    }
    if (const std::uint64_t version = natural(path, json, "version"); version != kStkVersion) {
        throw Unsupported({.where = path.string(),
                           .expected = fmt::format("version {} of the stk format", kStkVersion),
                           .got = fmt::format("version {}", version),
                           .hint = "read it with the release of Stoker that wrote it, or pack again"});
    }
    const auto shards = json.find("shards");
    if (shards == json.end() || !shards->is_array() || shards->size() > kMaxShards) {
        refuse(path, "a list of shards", "none");
    }
    StkManifest manifest;
    if (const auto origin = json.find("origin"); origin != json.end() && origin->is_object()) {
        manifest.origin = text_of(*origin);
    }
    for (const Json& entry : *shards) {
        if (!entry.is_object()) {
            refuse(path, "an object for each shard", text_of(entry));
        }
        const StkShardInfo shard{.samples = natural(path, entry, "samples"),
                                 .bytes = natural(path, entry, "bytes"),
                                 .hash = hash_in(path, entry)};
        if (shard.samples == 0 || shard.samples > kStkMaxSamples) {
            refuse(path, fmt::format("1 to {} samples in each shard", kStkMaxSamples),
                   fmt::format("{}", shard.samples));
        }
        manifest.shards.push_back(shard);
        manifest.notes.push_back(text_of(entry.value("notes", Json::object())));
    }
    if (natural(path, json, "samples") != manifest.samples()) {
        refuse(path, fmt::format("{} samples, the sum of the shards'", manifest.samples()), text_of(json["samples"]));
    }
    return manifest;
}

}  // namespace stoker
