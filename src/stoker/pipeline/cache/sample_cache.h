// Keeps samples for the next epochs, in memory or in a file, up to a budget of bytes. Nothing is evicted: with a new
// shuffle every epoch, replacing one sample by another gains nothing.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "stoker/formats/dataset.h"

namespace stoker {

struct CacheOptions {
    std::int64_t bytes = 0;                // budget; 0: no cache
    std::filesystem::path directory = {};  // for the file; empty: in memory
};

class SampleCache {
  public:
    virtual ~SampleCache() = default;

    // True if the sample was cached; `sample` is then the one that was put, valid until it is reused. Thread-safe.
    virtual bool get(std::int64_t index, Sample& sample) const = 0;

    // Hints that `get(index)` follows soon: loads its bytes into the processor's cache without waiting.
    virtual void prefetch(std::int64_t /*index*/) const {}

    // What `get` would return, without reading the sample.
    virtual bool holds(std::int64_t index) const = 0;

    // Stores a copy if the budget allows. Thread-safe: of two threads that put the same sample one wins.
    virtual void put(std::int64_t index, const Sample& sample) = 0;

    virtual bool full() const = 0;                          // a sample did not fit into the budget
    virtual std::int64_t bytes() const = 0;                 // used
    virtual std::string stop_reason() const { return ""; }  // why it stopped growing below its budget
};

// For samples [0, size). In memory the index (8 bytes per sample) counts towards the budget. Null for a budget of 0.
// Throws IoError if the directory cannot be written to.
std::unique_ptr<SampleCache> make_sample_cache(std::int64_t size, const CacheOptions& options);

}  // namespace stoker
