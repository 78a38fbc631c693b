// The index.json of LitData's chunks: the files, and the names and serializers of the leaves of a sample.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "stoker/formats/array.h"
#include "stoker/formats/column_dataset.h"

namespace stoker {

struct LitChunk {
    std::string name;
    std::int64_t samples = 0;
    std::int64_t tokens = 0;  // of a chunk for TokensLoader
};

// What one zstd frame holds.
enum class LitFrames : std::uint8_t { none, chunk, batch, sample };

struct LitIndex {
    ColumnLayout layout;
    std::vector<LitChunk> chunks;
    LitFrames frames = LitFrames::none;
    std::string compression;          // as in the names of compressed chunks: "zstd", "zstd:4"
    std::optional<ArrayType> tokens;  // of a stream for TokensLoader; no columns
};

// `where` is for messages. Throws DataError for damaged members, Unsupported for encrypted chunks, for chunks that are
// Parquet files and for a compression other than zstd.
LitIndex parse_litdata_index(const nlohmann::json& index, const std::string& where);

// The names of the leaves of a sample, from the text that describes its structure: the keys of a dict, the positions in
// a list or tuple; "0" for a sample that is one value, "a.0" for structures within others. Throws DataError.
std::vector<std::string> litdata_leaf_names(const std::string& spec);

}  // namespace stoker
