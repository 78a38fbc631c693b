// The bad samples that a loader found: those that it need not read again, and how many an epoch may have.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "stoker/formats/dataset.h"
#include "stoker/pipeline/batch.h"

namespace stoker {

class BadSampleList {
  public:
    // `budget`: how many an epoch may have; 0: none. `dataset` outlives it.
    BadSampleList(const Dataset& dataset, std::int64_t budget) : dataset_(dataset), budget_(budget) {}

    // These three are thread-safe. The sample that `remember` kept; empty: none.
    std::optional<BadSample> find(std::int64_t index);
    // Describes the sample's error. Throws TooManyBadSamples without a budget.
    BadSample add(std::int64_t index, const DataError& error, bool remember);
    void list_in(Batch& batch, BadSample bad);

    // The same before the first batch. Throws TooManyBadSamples if `index` was the last sample to try. Call it in a
    // catch block: without a budget it rethrows.
    void add_first(std::int64_t index, const DataError& error, bool remember, std::int64_t tries);

    // Counts a batch's bad samples, in the order of batches, so that the batch that exceeds the budget is the same for
    // any number of workers. Throws TooManyBadSamples past it, and if `replace` and a sample is not replaced.
    void count(Batch& batch, bool replace);
    std::int64_t counted() const { return counted_; }  // in this epoch
    void begin_epoch(std::int64_t counted = 0) { counted_ = counted; }

  private:
    BadSample record(std::int64_t index, const DataError& error, bool remember);

    const Dataset& dataset_;
    const std::int64_t budget_;
    std::mutex mutex_;                                   // guards found_, and the batches' lists while they are filled
    std::unordered_map<std::int64_t, BadSample> found_;  // by index
    std::atomic<bool> any_ = false;                      // found_ is not empty
    std::vector<BadSample> first_;                       // of add_first
    std::int64_t counted_ = 0;
};

}  // namespace stoker
