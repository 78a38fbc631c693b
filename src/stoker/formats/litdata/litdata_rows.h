// Rows of numbers, text and bytes that LitData keeps as an Arrow table behind a chunk's empty samples: an Arrow file or
// stream, its length as uint32, and "LDARW01\0".
#pragma once

#include "stoker/formats/litdata/litdata_index.h"
#include "stoker/formats/sample_shards.h"

namespace stoker {

// True for a chunk that ends with such a table.
bool has_arrow_rows(const ByteFile& file);

// The chunk is one part, which becomes samples in LitData's own layout when it is read. Throws DataError for a length
// outside the file.
ShardTable read_arrow_rows(const ByteFile& file, const ShardInfo& chunk, const ColumnLayout& layout);

}  // namespace stoker
