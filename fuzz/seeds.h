// The seeds that need more than the image codecs.
#pragma once

#include <cstddef>
#include <vector>

namespace stoker::fuzz {

// Each JPEG as a dct record, without and with its second stage.
std::vector<std::vector<std::byte>> dct_records(const std::vector<std::vector<std::byte>>& jpegs);

// Tar archives, each behind a byte that tells whether checksums are mended.
std::vector<std::vector<std::byte>> tars();

}  // namespace stoker::fuzz
