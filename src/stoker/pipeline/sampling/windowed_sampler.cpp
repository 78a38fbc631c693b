// For data that is best read shard by shard: shards in a shuffled sequence, which is cut into windows; samples are
// shuffled within their window. As deterministic as the full shuffle.
// A position is permuted within its window; the result is a place in the epoch's sequence of shards.
#include <algorithm>
#include <fmt/format.h>
#include <memory>
#include <mutex>
#include <numeric>

#include "stoker/base/error.h"
#include "stoker/base/hash.h"
#include "stoker/pipeline/sampling/permutation.h"
#include "stoker/pipeline/sampling/sampler_pass.h"

namespace stoker {
namespace {

// Permutation streams: the full shuffle uses 0 and up.
constexpr std::uint64_t kShardStream = std::uint64_t{1} << 40;
constexpr std::uint64_t kWindowStreams = kShardStream + 1;

// Data without shards is cut into blocks, this many per window. Their total is limited, because an epoch's sequence
// lists them.
constexpr std::int64_t kBlocksPerWindow = 16;
constexpr std::int64_t kMaxBlocks = 1 << 20;

class WindowedSampler final : public Sampler {
  public:
    // Throws InvalidArgument if the sizes of the shards do not add up to the size of the data set.
    explicit WindowedSampler(const SamplerOptions& options)
        : size_(options.size), window_(options.window), seed_(options.seed), begins_{0} {
        for (const std::int64_t shard : options.shards) {
            begins_.push_back(begins_.back() + shard);
        }
        if (options.shards.empty()) {
            const std::int64_t block = std::max({window_ / kBlocksPerWindow, size_ / kMaxBlocks, std::int64_t{1}});
            while (begins_.back() < size_) {
                begins_.push_back(std::min(begins_.back() + block, size_));
            }
        }
        if (begins_.back() != size_ || !std::ranges::is_sorted(begins_)) {
            throw InvalidArgument({.where = "data.train",
                                   .expected = fmt::format("shards of {} samples in total", size_),
                                   .got = fmt::to_string(begins_.back())});
        }
    }

    std::int64_t size() const override { return size_; }
    std::int64_t samples() const override { return size_; }
    std::uint64_t seed() const override { return seed_; }

    void draw(std::int64_t epoch, std::int64_t first, std::span<SampledIndex> out) const override {
        const auto shards = sequence(epoch);
        std::int64_t window = -1;
        Permutation permutation(0, 0, 0);
        for (std::size_t i = 0; i < out.size(); ++i) {
            const std::int64_t position = first + static_cast<std::int64_t>(i);
            if (position / window_ != window) {
                window = position / window_;
                permutation =
                    Permutation(std::min(window_, size_ - window * window_), seed_, static_cast<std::uint32_t>(epoch),
                                kWindowStreams + static_cast<std::uint64_t>(window));
            }
            out[i] = {.index = shards->index(window * window_ + permutation(position % window_))};
        }
    }

    // From the same window, whose shards are being read; from the whole data set if all samples of the window are bad.
    std::optional<std::int64_t> substitute(std::int64_t epoch, std::int64_t position,
                                           std::int64_t attempt) const override {
        const std::int64_t window = position / window_;
        const std::int64_t size = std::min(window_, size_ - window * window_);
        const auto number = static_cast<std::uint64_t>(epoch);
        const auto other =
            substitute_place(size, position % window_, attempt, seed_, number, 1 + static_cast<std::uint64_t>(window));
        return other ? sequence(epoch)->index(window * window_ + *other)
                     : substitute_place(size_, position, attempt - size, seed_, number, 0);
    }

    std::string name() const override {
        const std::uint64_t shards = hash_bytes(std::as_bytes(std::span(begins_)));
        return fmt::format("windows of {}, {} shards {:016x}", window_, begins_.size() - 1, shards);
    }

  private:
    // The shards in one epoch's sequence.
    struct Sequence {
        std::int64_t epoch = -1;
        std::vector<std::int64_t> ends;    // position after each shard
        std::vector<std::int64_t> firsts;  // index of each shard's first sample

        std::int64_t index(std::int64_t place) const {
            const auto shard = static_cast<std::size_t>(std::ranges::upper_bound(ends, place) - ends.begin());
            return firsts[shard] + place - (shard == 0 ? 0 : ends[shard - 1]);
        }
    };

    std::shared_ptr<const Sequence> sequence(std::int64_t epoch) const {
        const std::lock_guard lock(mutex_);
        if (last_ == nullptr || last_->epoch != epoch) {
            const auto shards = static_cast<std::int64_t>(begins_.size()) - 1;
            const Permutation permutation(shards, seed_, static_cast<std::uint32_t>(epoch), kShardStream);
            auto made = std::make_shared<Sequence>();
            made->epoch = epoch;
            std::int64_t end = 0;
            for (std::int64_t i = 0; i < shards; ++i) {
                const auto shard = static_cast<std::size_t>(permutation(i));
                end += begins_[shard + 1] - begins_[shard];
                made->ends.push_back(end);
                made->firsts.push_back(begins_[shard]);
            }
            last_ = std::move(made);
        }
        return last_;
    }

    std::int64_t size_;
    std::int64_t window_;
    std::uint64_t seed_;
    std::vector<std::int64_t> begins_;              // index of each shard's first sample, and the end
    mutable std::mutex mutex_;                      // guards last_
    mutable std::shared_ptr<const Sequence> last_;  // the sequence used last
};

}  // namespace

std::shared_ptr<const Sampler> make_windowed_sampler(const SamplerOptions& options) {
    return std::make_shared<WindowedSampler>(options);
}

}  // namespace stoker
