// index.json, the list of shards of MDS and of LitData: finding it, telling the two apart, and the files next to it.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "stoker/formats/dataset.h"
#include "stoker/io/byte_file.h"

namespace stoker {

enum class IndexKind : std::uint8_t { mds, litdata };

struct FoundIndex {
    std::string path;
    IndexKind kind = IndexKind::mds;
    bool split = false;  // of one split: in train/ of a folder that has val/ or test/ as well
};

// The index of a local folder, or one given by its path; empty if there is none of the two. Looks at its beginning
// only. Throws IoError for one that exists and cannot be read.
std::optional<FoundIndex> find_index(const std::string& data, Split split);

// True for a URL of an index.json, and for one that may be a folder with it: one without an ending.
bool may_be_index_url(std::string_view url);

// The URL of the index in that folder.
std::string index_url(std::string_view url);

// A file next to the index; `name` may have folders. In a URL of http(s) the name is percent-encoded. Throws DataError for a name that leaves the index's folder.
std::string next_to_index(const std::string& index, std::string_view name);

// The folder of the index, for messages: "data/train", "https://host/train".
std::string shown_folder(const std::string& index);

// Throws IoError if it cannot be read, DataError for anything but a JSON object.
nlohmann::json read_index(const ByteFile& file);

// The kind of a whole index. Throws DataError for another document.
IndexKind index_kind(const nlohmann::json& index);

// ---- Members of JSON objects. Each throws DataError that names the member, for another value or none. ----

const nlohmann::json& json_member(const nlohmann::json& object, const char* name);
std::string json_text_member(const nlohmann::json& object, const char* name);
// At most `most`.
std::uint64_t json_natural_member(const nlohmann::json& object, const char* name, std::uint64_t most);
// Null, or left out, is null.
const nlohmann::json* json_optional_member(const nlohmann::json& object, const char* name);

}  // namespace stoker
