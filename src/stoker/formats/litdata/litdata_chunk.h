// The table of a chunk's samples. Four layouts: as SampleShards has it, with a zstd frame for some samples each, with
// a frame for each sample, and as an Arrow table.
#pragma once

#include <cstddef>
#include <span>

#include "stoker/formats/litdata/litdata_index.h"
#include "stoker/formats/sample_shards.h"

namespace stoker {

// True for the beginning of a chunk with a frame for some samples each.
bool is_framed_chunk(std::span<const std::byte> head);

// Throws DataError for a damaged table, and what read_arrow_rows throws.
ShardTable read_litdata_table(const ByteFile& file, const ShardInfo& chunk, const LitIndex& index);

}  // namespace stoker
