// LitData: chunks of samples, as its `optimize` writes them, with random access; and streams of tokens for its
// TokensLoader.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "stoker/formats/dataset.h"
#include "stoker/io/shard_files.h"

namespace stoker {

// The data set of `index`, which was read from the path or URL `place`, in the order of its chunks. Compressed samples
// are shuffled together in their parts. `context`: the tokens of a sample, less one, of a stream. Throws what
// parse_litdata_index, read_litdata_table and ColumnDataset throw, IoError for a missing chunk, InvalidArgument for a
// stream without a context.
std::unique_ptr<Dataset> open_litdata(const std::string& place, const nlohmann::json& index, const FieldNames& fields,
                                      ShardFiles::Open open, std::int64_t context = 0);

}  // namespace stoker
