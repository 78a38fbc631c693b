// What `stoker bench pipeline` measures: the loader of training with the augmentation that ImageNet is trained with,
// and batches without an end.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "stoker/formats/dataset.h"
#include "stoker/pipeline/loader.h"

namespace stoker::cli {

struct FeedOptions {
    int size = 224;              // of the crop's sides
    std::optional<int> workers;  // empty: auto
    std::int64_t batch = 64;
    int prefetch = 3;
    std::string decode = "exact";  // exact | fast
};

class PipelineFeed {
  public:
    // Makes the loader and takes its first batch. Throws what the loader throws.
    PipelineFeed(const std::shared_ptr<const Dataset>& dataset, const FeedOptions& options);

    int workers() const { return loader_.workers(); }
    const Batch& first() const { return *first_; }
    void forget_first() { first_ = nullptr; }
    double first_seconds() const { return first_seconds_; }

    // Takes `count` batches and lets them go; gives back their images. Throws Interrupted after a signal.
    std::int64_t take(std::int64_t count);

    // After this the consumer waits for every batch, as it does while a round is timed: none was made in advance.
    void drain() { take(prefetch_ + 2); }

  private:
    std::shared_ptr<Batch> next();

    int prefetch_;
    std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
    Loader loader_;
    std::shared_ptr<Batch> first_;
    double first_seconds_;
};

}  // namespace stoker::cli
