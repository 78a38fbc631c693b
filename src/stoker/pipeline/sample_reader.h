// Reads a loader's samples: from its cache if they are there, else from the data set.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "stoker/formats/dataset.h"
#include "stoker/pipeline/cache/sample_cache.h"

namespace stoker {

class SampleReader {
  public:
    // `dataset` outlives the reader. Nothing is cached before open_cache().
    SampleReader(const Dataset& dataset, CacheOptions cache) : dataset_(dataset), options_(std::move(cache)) {}

    // Call it when the batches' memory is claimed, which the cache then leaves alone. Throws IoError if the cache's
    // directory cannot be written to.
    void open_cache() { cache_ = make_sample_cache(dataset_.size(), options_); }

    // True: `sample` is as keep() got it. Throws what the data set throws.
    bool read(std::int64_t index, Sample& sample) const;
    // Caches the sample, if there is a cache with memory for it.
    void keep(std::int64_t index, const Sample& sample) {
        if (cache_ != nullptr) {
            cache_->put(index, sample);
        }
    }

    // Hints: these samples are read soon; this one is read next but one.
    void prefetch(std::span<const std::int64_t> indices) const;
    void prefetch_cached(std::int64_t index) const {
        if (cache_ != nullptr) {
            cache_->prefetch(index);
        }
    }

    std::int64_t cached_bytes() const { return cache_ ? cache_->bytes() : 0; }
    // Why the cache stopped growing below its budget; usually empty.
    std::string stop_reason() const { return cache_ ? cache_->stop_reason() : ""; }

  private:
    const Dataset& dataset_;
    CacheOptions options_;
    std::unique_ptr<SampleCache> cache_;  // null: none
};

}  // namespace stoker
