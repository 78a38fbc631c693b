// Reads and writes the manifest as JSON. 64-bit hashes are hexadecimal strings, because many JSON readers parse numbers
// as doubles.
#include "stoker/formats/stk/stk_manifest.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <span>
#include <system_error>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/base/json_depth.h"
#include "stoker/base/parse_number.h"
#include "stoker/base/self_hash.h"
#include "stoker/formats/shard_names.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// In bytes. A shard takes at most 102, so kMaxShards shards leave a quarter of the limit for `origin`.
constexpr std::size_t kMaxManifest = std::size_t{128} << 20;
constexpr int kMaxNoteDepth = kMaxJsonDepth - 3;  // `notes` are at most three levels down in the manifest

[[noreturn]] void refuse(const fs::path& path, const std::string& expected, const std::string& got) {
    throw DataError({.path = path.string()}, {.where = "stk", .expected = expected, .got = got});
}

void check_written(const fs::path& path, const char* what, std::size_t count, std::size_t most) {
    if (count > most) {
        throw InvalidArgument({.where = path.string(),
                               .expected = fmt::format("at most {} {}", most, what),
                               .got = fmt::format("{}", count),
                               .hint = "make the shards larger"});
    }
}

Json parse_note(const std::string& text) {
    if (const int depth = json_depth(text); depth > kMaxNoteDepth) {
        throw InvalidArgument({.where = "stk",
                               .expected = fmt::format("JSON of at most {} levels", kMaxNoteDepth),
                               .got = fmt::format("{}", depth)});
    }
    return parse_own_json<Json>(text);
}

std::uint64_t natural(const fs::path& path, const Json& json, const char* name) {
    const auto found = json.find(name);
    if (found == json.end() || !found->is_number_unsigned()) {
        refuse(path, fmt::format("a natural number \"{}\"", name), found == json.end() ? "none" : json_text(*found));
    }
    return found->get<std::uint64_t>();
}

std::uint64_t hash_in(const fs::path& path, const Json& json) {
    const auto found = json.find("hash");
    const std::string text = found != json.end() && found->is_string() ? found->get<std::string>() : "";
    const auto value = parse_number<std::uint64_t>(text, 16);
    if (text.size() != 16 || !value) {
        refuse(path, "a \"hash\" of 16 hexadecimal digits", found == json.end() ? "none" : json_text(*found));
    }
    return *value;
}

void check_size(const fs::path& path, std::uintmax_t size) {
    if (size > kMaxManifest) {
        refuse(path, "the manifest of an stk data set", fmt::format("a file of {} bytes", size));
    }
}

StkManifest parse_manifest(const fs::path& path, const std::string& text) {
    if (const int depth = json_depth(text); depth > kMaxJsonDepth) {
        refuse(path, fmt::format("a manifest of at most {} levels", kMaxJsonDepth), fmt::format("{}", depth));
    }
    const Json json = parse_json<Json>(text);
    if (!json.is_object() || json.value("format", Json()) != "stk") {
        refuse(path, "the manifest of an stk data set", "another document");
    }
    check_stk_version(natural(path, json, "version"), path.string());
    if (!self_hash_fits(text)) {
        throw DataError({.path = path.string()}, {.where = "stk",
                                                  .expected = "an intact manifest",
                                                  .got = "a damaged one: its hash differs",
                                                  .hint = "copy the whole folder again, or pack again"});
    }
    const auto shards = json.find("shards");
    if (shards == json.end() || !shards->is_array() || shards->size() > kMaxShards) {
        refuse(path, "a list of shards", "none");
    }
    StkManifest manifest;
    if (const auto origin = json.find("origin"); origin != json.end() && origin->is_object()) {
        manifest.origin = json_text(*origin);
    }
    for (const Json& entry : *shards) {
        if (!entry.is_object()) {
            refuse(path, "an object for each shard", json_text(entry));
        }
        const StkShardInfo shard{.samples = natural(path, entry, "samples"),
                                 .bytes = natural(path, entry, "bytes"),
                                 .hash = hash_in(path, entry)};
        if (shard.samples == 0 || shard.samples > kStkMaxSamples) {
            refuse(path, fmt::format("1 to {} samples in each shard", kStkMaxSamples),
                   fmt::format("{}", shard.samples));
        }
        manifest.shards.push_back(shard);
        manifest.notes.push_back(json_text(entry.value("notes", Json::object())));
    }
    if (natural(path, json, "samples") != manifest.samples()) {
        refuse(path, fmt::format("{} samples, the sum of the shards'", manifest.samples()), json_text(json["samples"]));
    }
    return manifest;
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
    return json_text(parse_note(json));
}

bool holds_stk(const fs::path& directory) {
    std::error_code unknown;  // an unreadable folder counts as holding none
    return fs::exists(directory / kStkManifest, unknown) || fs::exists(directory / kStkPartManifest, unknown);
}

void write_manifest(const fs::path& path, const StkManifest& manifest) {
    check_written(path, "shards", manifest.shards.size(), kMaxShards);
    Json shards = Json::array();
    for (std::size_t i = 0; i < manifest.shards.size(); ++i) {
        const StkShardInfo& shard = manifest.shards[i];
        Json entry = {{"samples", shard.samples}, {"bytes", shard.bytes}, {"hash", fmt::format("{:016x}", shard.hash)}};
        if (i < manifest.notes.size()) {
            entry["notes"] = parse_note(manifest.notes[i]);
        }
        shards.push_back(std::move(entry));
    }
    const Json json = {{"format", "stk"},
                       {"version", kStkVersion},
                       {"samples", manifest.samples()},
                       {"origin", parse_note(manifest.origin)},
                       {"shards", std::move(shards)},
                       {kSelfHash, kNoSelfHash}};
    const std::string text = with_self_hash(json_text(json, 1) + "\n");
    check_written(path, "bytes of manifest", text.size(), kMaxManifest);
    write_file(path, text);
}

StkManifest read_manifest(const fs::path& path) {
    std::error_code unknown;
    if (const std::uintmax_t size = fs::file_size(path, unknown); !unknown) {
        check_size(path, size);
    }
    return parse_manifest(path, read_text(path));
}

StkManifest read_manifest(const ByteFile& file) {
    check_size(file.name(), file.size());
    std::string text(static_cast<std::size_t>(file.size()), '\0');
    file.read(0, std::as_writable_bytes(std::span(text)));
    return parse_manifest(file.name(), text);
}

bool is_stk_url(std::string_view url) {
    const std::string_view folder = without_query(url);
    return is_remote(url) && (folder.ends_with(".stk") || folder.ends_with(".stk/"));
}

std::string stk_url(std::string_view url, std::string_view name) {
    const std::string_view folder = without_query(url);
    return fmt::format("{}{}{}{}", folder, folder.ends_with('/') ? "" : "/", name, url.substr(folder.size()));
}

}  // namespace stoker
