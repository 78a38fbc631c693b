// Times the reading of a data set: every record's bytes in shuffled order by several threads, without decoding.
#pragma once

#include <cstdint>

#include "stoker/formats/dataset.h"

namespace stoker::cli {

struct StorageTiming {
    double seconds = 0;
    std::int64_t samples = 0;
    std::int64_t bytes = 0;
    std::uint64_t hash_sum = 0;  // sum of hash_bytes of all samples, independent of their order
};

// `epochs` passes over all samples, each in another order. Thread w takes every workers-th position. It announces
// batches of 64 with Dataset::prefetch, reads them with Dataset::read and hashes each byte. Throws what reading throws.
StorageTiming time_reading(const Dataset& dataset, int workers, std::uint32_t first_epoch, std::uint32_t epochs);

}  // namespace stoker::cli
