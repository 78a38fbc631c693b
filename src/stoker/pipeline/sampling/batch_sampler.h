// Which positions of an epoch's order make up which batch. The k-th global batch is the same for any number of ranks,
// each of which takes its slice of it.
#pragma once

#include <cstdint>

namespace stoker {

struct BatchSamplerOptions {
    std::int64_t size = 0;        // positions of an epoch
    std::int64_t batch_size = 1;  // samples of one step over all ranks
    bool drop_last = false;       // leave out the last batch of an epoch where it is not full
    int rank = 0;
    int world_size = 1;  // must divide batch_size
};

// Consecutive positions of an epoch's order.
struct Slice {
    std::int64_t first = 0;
    std::int64_t count = 0;
};

class BatchSampler {
  public:
    // Throws InvalidArgument for sizes or ranks that cannot be.
    explicit BatchSampler(const BatchSamplerOptions& options);

    const BatchSamplerOptions& options() const { return options_; }

    std::int64_t batches() const;                    // of an epoch, the same for every rank
    std::int64_t max_slice() const;                  // samples of the largest slice of any rank
    std::int64_t samples(std::int64_t batch) const;  // of global batch `batch` over all ranks

    // This rank's part of global batch `batch` in [0, batches()). A last batch that is not full is
    // divided as evenly as can be, so with many ranks a slice of it may be empty.
    Slice slice(std::int64_t batch) const;

  private:
    BatchSamplerOptions options_;
};

}  // namespace stoker
