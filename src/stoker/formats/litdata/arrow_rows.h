// Rows of numbers, text and bytes that LitData keeps as an Arrow table behind a chunk's empty samples: an IPC file, its
// length as uint32, and "LDARW01\0".
#pragma once

#include "stoker/formats/litdata/litdata_index.h"
#include "stoker/formats/sample_shards.h"

namespace stoker {

// True for a chunk that ends with such a table.
bool has_arrow_rows(const ByteFile& file);

// A part for each record batch; they become samples in LitData's own layout when they are read. Throws DataError for
// damaged metadata and for another number of rows than `chunk` has, Unsupported for columns of other types.
ShardTable read_arrow_rows(const ByteFile& file, const ShardInfo& chunk, const ColumnLayout& layout);

}  // namespace stoker
