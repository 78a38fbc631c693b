// The index.json of MDS shards, as the Streaming library of Mosaic writes it: version 2 of the format.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "stoker/formats/column_dataset.h"
#include "stoker/formats/sample_shards.h"

namespace stoker {

struct MdsFile {
    std::string name;  // in the folder of the index
    std::uint64_t size = 0;
};

struct MdsShard {
    std::int64_t samples = 0;
    MdsFile raw;
    std::optional<MdsFile> packed;  // the compressed file
    ShardPacking packing = ShardPacking::none;
};

struct MdsIndex {
    ColumnLayout layout;
    std::vector<MdsShard> shards;
};

// `where` is for messages. Throws DataError for damaged members and for shards with other columns than the first has,
// Unsupported for another version, for shards of CSV, TSV or JSON lines, and for a compression other than zstd and gz.
MdsIndex parse_mds_index(const nlohmann::json& index, const std::string& where);

}  // namespace stoker
