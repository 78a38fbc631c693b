// A loader's position as a small versioned JSON document. It is a position in the order that (seed, epoch) gives, so it
// can be restored with any number of workers and ranks.
#pragma once

#include <cstdint>
#include <string>

#include "stoker/formats/dataset.h"

namespace stoker {

// The generator's counter has 32 bits for the epoch.
inline constexpr std::int64_t kMaxEpochs = std::int64_t{1} << 32;

struct LoaderState {
    static constexpr int kVersion = 3;
    std::int64_t epoch = 0;        // of the next batch
    std::int64_t batch = 0;        // its number in that epoch, from 0
    std::int64_t bad_samples = 0;  // replaced in that epoch before this batch
    // The order depends on these; they must be the same in the loader that restores the state.
    std::int64_t size = 0;
    std::uint64_t keys = 0;      // keys_hash of the data set
    std::uint64_t identity = 0;  // data_identity of it
    std::int64_t batch_size = 0;
    std::uint64_t seed = 0;
    std::string order;  // Sampler::name()
    bool drop_last = false;

    bool operator==(const LoaderState&) const = default;
};

// A hash of the number of samples and of 64 to 128 keys, evenly spread. It detects other files, but not a moved folder.
// If keys are positions (IDX, arrays), it depends on the number alone.
std::uint64_t keys_hash(const Dataset& dataset);

// A hash of all keys and labels, in order: the same for every format that the data are packed in. 0 where the labels
// are not known without reading the samples, as in most LMDB databases. Takes about 0.1 us a sample, divided by the
// cores; reads nothing but the data set's index.
std::uint64_t data_identity(const Dataset& dataset);

// One object, which loader_state_from_json reads back.
std::string to_json(const LoaderState& state);

// Throws InvalidArgument with the recipe's key if a loader with state `own` cannot continue from `state`.
void require_same_sampler(const LoaderState& own, const LoaderState& state);

// Throws InvalidArgument for a position that is none of a loader with so many batches in an epoch.
void require_position(const LoaderState& state, std::int64_t batches);

// Throws InvalidArgument for text that is not a loader state of version kVersion.
LoaderState loader_state_from_json(const std::string& text);

}  // namespace stoker
