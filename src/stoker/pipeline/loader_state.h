// Where a loader stands, as a small versioned JSON document. It names a place in the one order of
// (seed, epoch), not in any thread or rank, so it fits any number of either.
#pragma once

#include <cstdint>
#include <string>

#include "stoker/formats/dataset.h"

namespace stoker {

struct LoaderState {
    static constexpr int kVersion = 3;
    std::int64_t epoch = 0;        // of the next batch
    std::int64_t batch = 0;        // its number in that epoch
    std::int64_t bad_samples = 0;  // of that epoch, before this batch
    // What the order depends on: a state fits only a loader with the same.
    std::int64_t size = 0;
    std::uint64_t keys = 0;  // keys_hash of the dataset; 0: not known
    std::int64_t batch_size = 0;
    std::uint64_t seed = 0;
    std::string order;  // its name
    bool drop_last = false;

    bool operator==(const LoaderState&) const = default;
};

// Of the number of samples and of some hundred keys, evenly spread: tells another set of files from a moved one. Where
// keys are positions (IDX, arrays), it knows the number alone.
std::uint64_t keys_hash(const Dataset& dataset);

std::string to_json(const LoaderState& state);

// Throws InvalidArgument, naming the recipe's key, where a loader that stands at `own` cannot go on from `state`.
void require_same_sampler(const LoaderState& own, const LoaderState& state);

// Throws InvalidArgument for text that is no state, or one of an unknown version.
LoaderState loader_state_from_json(const std::string& text);

}  // namespace stoker
