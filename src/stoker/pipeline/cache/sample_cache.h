// Samples kept for the next epoch, in memory or in a file, up to a budget of bytes. Filled as samples come by and never
// emptied: under a new shuffle every epoch, evicting one sample for another gains nothing.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>

#include "stoker/formats/dataset.h"

namespace stoker {

struct CacheOptions {
    std::int64_t bytes = 0;                // the most that is kept; 0: no cache
    std::filesystem::path directory = {};  // of the file; empty: in memory
    bool encoded = false;                  // the samples as stored; else pixels, up to the first random op
};

class SampleCache {
  public:
    virtual ~SampleCache() = default;

    // True where the sample was kept and can be had: `sample` is then as it was put, valid until it is read into
    // again. Safe beside `put`.
    virtual bool get(std::int64_t index, Sample& sample) const = 0;

    // Before `get`, by a sample or two: memory is asked for its bytes, without a wait.
    virtual void prefetch(std::int64_t /*index*/) const {}

    // As `get` would say, without reading the sample.
    virtual bool holds(std::int64_t index) const = 0;

    // Keeps a copy where the budget allows. Of two threads that put the same sample one wins.
    virtual void put(std::int64_t index, const Sample& sample) = 0;

    virtual std::int64_t bytes() const = 0;             // used of the budget
    virtual std::string trouble() const { return ""; }  // why it stopped growing before its budget
};

// For samples [0, size); in memory the index itself counts towards the budget. Null for a budget of 0. Throws IoError
// where the directory cannot be written to.
std::unique_ptr<SampleCache> make_sample_cache(std::int64_t size, const CacheOptions& options);

}  // namespace stoker
