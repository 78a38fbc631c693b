// The encodings of MDS columns: their names in an index, and how bytes in them become values.
#pragma once

#include <string>

#include "stoker/formats/column_values.h"

namespace stoker {

// The column whose encoding is called "jpeg", "int", "ndarray:float32:2,3", ... Unknown ones, and pickles, are refused
// when they are read. Throws DataError for a damaged ndarray.
SampleColumn mds_column(std::string name, const std::string& encoding);

}  // namespace stoker
