// Opens data sets of Parquet and Arrow files.
#pragma once

#include <memory>
#include <string>

#include "stoker/formats/arrow/arrow_c_data.h"
#include "stoker/formats/dataset.h"
#include "stoker/formats/open.h"

namespace stoker {

// True for x.parquet, x.arrow, patterns and URLs of them, and folders that hub_files.h describes.
bool is_arrow_path(const std::string& data);

// Throws DataError for a folder without files of the split, and all that ArrowDataset throws.
std::unique_ptr<Dataset> open_arrow(const std::string& data, Split split, const OpenOptions& options);

// True for a folder with files of both splits.
bool arrow_has_splits(const std::string& data);

// A table in memory: all batches of the stream. They are used without a copy and freed with the data set.
// `folder`: of files that columns name instead of holding them.
std::unique_ptr<Dataset> open_arrow_stream(ArrowArrayStream* stream, const std::string& folder,
                                           const FieldNames& fields);

}  // namespace stoker
