// stk.json, the file that makes a folder of shards a data set: how many there are and the hash of each. It
// is written last, so a folder with it is complete; stk.part.json keeps the same account until then.
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
    std::vector<std::string> notes;  // the writer's own on each shard, JSON; only while the set is unfinished
    std::string origin = "{}";       // where the data came from and what was done to it, a JSON object

    std::uint64_t samples() const;
};

// The same document in the one form that `origin` and `notes` are read back in, so that texts can be compared.
std::string compact_json(const std::string& json);

// True for a directory that holds an stk data set, finished or not.
bool holds_stk(const std::filesystem::path& directory);

// Throws InvalidArgument for what `read_manifest` would refuse: too many shards, `origin` or `notes` too large or too
// deep.
void write_manifest(const std::filesystem::path& path, const StkManifest& manifest);

// Throws DataError for another document, Unsupported for another version.
StkManifest read_manifest(const std::filesystem::path& path);
StkManifest read_manifest(const ByteFile& file);

// An stk data set behind http(s):// or s3://, by its name: x.stk, with or without a slash at the end and, of http(s),
// a query, which is sent with the name of every file in it.
bool is_stk_url(std::string_view url);

// The URL of file `name` in that data set.
std::string stk_url(std::string_view url, std::string_view name);

}  // namespace stoker
