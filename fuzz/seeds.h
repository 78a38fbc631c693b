// The seeds that need more than the image codecs.
#pragma once

#include <cstddef>
#include <vector>

namespace stoker::fuzz {

// Each JPEG as a dct record, without and with its second stage.
std::vector<std::vector<std::byte>> dct_records(const std::vector<std::vector<std::byte>>& jpegs);

// Values of LMDB records.
std::vector<std::vector<std::byte>> lmdb_records();

}  // namespace stoker::fuzz
