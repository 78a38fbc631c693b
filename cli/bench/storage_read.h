// One measured reading of a data set: every record's bytes, shuffled, by several threads, and nothing else.
#pragma once

#include <cstdint>

#include "stoker/formats/dataset.h"

namespace stoker::cli {

struct StorageRead {
    double seconds = 0;
    std::int64_t samples = 0;
    std::int64_t bytes = 0;
    std::uint64_t sum = 0;  // of hash_bytes of every sample, whatever the order
};

// `epochs` passes over all samples, each in another order. Thread w takes every workers-th position, reads batches of
// 64 with Dataset::read after Dataset::prefetch, and hashes each byte. Throws what reading threw.
StorageRead read_all(const Dataset& dataset, int workers, std::uint32_t first_epoch, std::uint32_t epochs);

}  // namespace stoker::cli
