// The table of a chunk's samples. Three layouts: as SampleShards has it, with a zstd frame for some samples each, and
// with a frame for each sample.
#pragma once

#include "stoker/formats/litdata/litdata_index.h"
#include "stoker/formats/sample_shards.h"

namespace stoker {

// Throws DataError for a damaged table, Unsupported for samples that are rows of an Arrow table.
ShardTable read_litdata_table(const ByteFile& file, const ShardInfo& chunk, LitFrames frames);

}  // namespace stoker
