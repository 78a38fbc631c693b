// The loader that `stoker bench pipeline` measures: training's Loader with ImageNet's augmentation, and an endless
// stream of batches.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "stoker/formats/dataset.h"
#include "stoker/pipeline/loader.h"

namespace stoker::cli {

struct BenchLoaderOptions {
    int size = 224;              // side of the crop in pixels
    std::optional<int> workers;  // empty: auto
    std::int64_t batch = 64;
    int prefetch = 3;
    std::string decode = "exact";  // exact | fast
};

class BenchLoader {
  public:
    // Creates the loader and takes its first batch. Throws what the loader throws.
    BenchLoader(const std::shared_ptr<const Dataset>& dataset, const BenchLoaderOptions& options);

    int workers() const { return loader_.workers(); }
    const Batch& first() const { return *first_; }
    void release_first() { first_ = nullptr; }
    double first_seconds() const { return first_seconds_; }

    // Takes and releases `count` batches; returns the number of images. Throws Interrupted after a signal.
    std::int64_t consume(std::int64_t count);

    // Consumes the batches that were prefetched, so that a timed round starts without a stock of finished batches.
    void drain() { consume(prefetch_ + 2); }

  private:
    std::shared_ptr<Batch> next();

    int prefetch_;
    std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
    Loader loader_;
    std::shared_ptr<Batch> first_;
    double first_seconds_;
};

}  // namespace stoker::cli
