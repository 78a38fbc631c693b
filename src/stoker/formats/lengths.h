// The lengths of samples in a field of any length, such as the tokens of documents.
#pragma once

#include <cstdint>
#include <vector>

#include "stoker/formats/dataset.h"

namespace stoker {

inline constexpr std::int64_t kBadLength = -1;

// The entries of field number `at` in each sample; kBadLength for samples that cannot be read. Reads those whose length
// the data set does not know, with all cores.
std::vector<std::int64_t> lengths_of(const Dataset& dataset, std::size_t at);

}  // namespace stoker
