// MDS: shards of samples with named columns, as the Streaming library of Mosaic writes them, with random access.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "stoker/formats/dataset.h"
#include "stoker/io/shard_files.h"

namespace stoker {

// The data set of `index`, which was read from the path or URL `place`, in the order of its shards. A compressed shard
// is one part of samples that are shuffled together, unless its uncompressed file is also there. Throws what
// parse_mds_index and ColumnDataset throw, IoError for a missing shard, DataError for one of another size.
std::unique_ptr<Dataset> open_mds(const std::string& place, const nlohmann::json& index, const FieldNames& fields,
                                  ShardFiles::Open open);

}  // namespace stoker
