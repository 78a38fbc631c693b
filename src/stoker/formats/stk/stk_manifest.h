// The manifest of an stk data set, stk.json: the number of shards and the hash of each. It is written last, so a folder
// that has it is complete. Until then stk.part.json lists the finished shards in the same form.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/formats/stk/stk_shard_writer.h"
#include "stoker/io/byte_file.h"

namespace stoker {

inline constexpr const char* kStkManifest = "stk.json";
inline constexpr const char* kStkPartManifest = "stk.part.json";

struct StkManifest {
    std::vector<StkShardInfo> shards;
    std::vector<std::string> notes;  // the writer's notes on each shard, JSON; only while the data set is unfinished
    std::string origin = "{}";       // JSON object: source of the data and the options it was written with

    std::uint64_t samples() const;
};

// Formats JSON as `origin` and `notes` are returned by read_manifest, so that the texts can be compared.
std::string compact_json(const std::string& json);

// True for a directory that holds an stk data set, finished or not.
bool holds_stk(const std::filesystem::path& directory);

// Throws InvalidArgument for a manifest that read_manifest rejects: too many shards, or `origin` or `notes` too large
// or too deeply nested.
void write_manifest(const std::filesystem::path& path, const StkManifest& manifest);

// Throw DataError for a file that is not a manifest, Unsupported for another version.
StkManifest read_manifest(const std::filesystem::path& path);
StkManifest read_manifest(const ByteFile& file);

// True for the URL of an stk data set: a remote name ending in .stk, with or without a trailing slash.
// An http(s) URL may have a query, which is sent with every file of the data set.
bool is_stk_url(std::string_view url);

// The URL of file `name` in the data set at `url`.
std::string stk_url(std::string_view url, std::string_view name);

}  // namespace stoker
