// The index of an MP4 or MOV, which libavformat expands in memory before it checks it.
#pragma once

#include <string_view>

namespace stoker {

// Throws DataError for a table of more samples than the file has bytes. Other files pass.
void require_possible_index(std::string_view file);

}  // namespace stoker
