// Divides the positions of an epoch into batches. The k-th global batch is the same for any number of ranks; each rank
// takes its slice of it.
#pragma once

#include <cstdint>
#include <vector>

namespace stoker {

struct BatchSamplerOptions {
    std::int64_t size = 0;        // positions in an epoch
    std::int64_t batch_size = 1;  // samples of one step over all ranks
    bool drop_last = false;       // drop an epoch's last batch if it is not full
    int rank = 0;
    int world_size = 1;  // must divide batch_size
    // The first position of each batch, and `size`, for batches of several sizes up to `batch_size`, which `world_size`
    // need not divide; `drop_last` then changes nothing. Empty: all but the last have `batch_size`.
    std::vector<std::int64_t> begins = {};
};

// Positions [first, first + count) of an epoch.
struct BatchSlice {
    std::int64_t first = 0;
    std::int64_t count = 0;
};

struct RankNeighbours {
    int before = 0;
    int after = 0;
};

class BatchSampler {
  public:
    // Throws InvalidArgument for impossible sizes or ranks.
    explicit BatchSampler(const BatchSamplerOptions& options);

    const BatchSamplerOptions& options() const { return options_; }

    std::int64_t batches() const;                    // per epoch, the same for every rank
    std::int64_t max_slice() const;                  // positions in the largest slice of any rank
    std::int64_t samples(std::int64_t batch) const;  // in global batch `batch`, over all ranks
    std::int64_t smallest() const;                   // samples of the smallest global batch

    // This rank's slice of global batch `batch` in [0, batches()). A last batch that is not full is divided evenly, so
    // with many ranks a slice may be empty.
    BatchSlice slice(std::int64_t batch) const;

    // The ranks with the sample before the first one of this rank's slice, which must not be empty, and with the sample
    // after its last one. The first sample of a batch follows its last.
    RankNeighbours neighbours(std::int64_t batch) const;

  private:
    BatchSamplerOptions options_;
};

}  // namespace stoker
