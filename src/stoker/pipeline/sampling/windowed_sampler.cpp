// A position lies in a window, is permuted within it, and what results is a place in the sequence of shards.
#include "stoker/pipeline/sampling/windowed_sampler.h"

#include <algorithm>
#include <fmt/format.h>
#include <numeric>

#include "stoker/base/error.h"
#include "stoker/base/hash.h"
#include "stoker/pipeline/sampling/permutation.h"

namespace stoker {
namespace {

// Streams of the permutation's keys: the whole data set's shuffle has 0.
constexpr std::uint64_t kShards = std::uint64_t{1} << 40;
constexpr std::uint64_t kWindows = kShards + 1;

// Where there are no shards, a window draws from so many places; no more blocks than this in all, since an epoch
// lists them.
constexpr std::int64_t kBlocks = 16;
constexpr std::int64_t kMostBlocks = 1 << 20;

}  // namespace

WindowedSampler::WindowedSampler(const SamplerOptions& options)
    : size_(options.size), window_(options.window), seed_(options.seed), begins_{0} {
    for (const std::int64_t shard : options.shards) {
        begins_.push_back(begins_.back() + shard);
    }
    if (options.shards.empty()) {
        const std::int64_t block = std::max({window_ / kBlocks, size_ / kMostBlocks, std::int64_t{1}});
        while (begins_.back() < size_) {
            begins_.push_back(std::min(begins_.back() + block, size_));
        }
    }
    if (begins_.back() != size_ || !std::ranges::is_sorted(begins_)) {
        throw InvalidArgument({.where = "order",
                               .expected = fmt::format("shards that hold {} samples together", size_),
                               .got = fmt::to_string(begins_.back())});
    }
}

std::shared_ptr<const WindowedSampler::Sequence> WindowedSampler::sequence(std::int64_t epoch) const {
    const std::lock_guard lock(mutex_);
    if (last_ == nullptr || last_->epoch != epoch) {
        const auto shards = static_cast<std::int64_t>(begins_.size()) - 1;
        const Permutation permutation(shards, seed_, static_cast<std::uint32_t>(epoch), kShards);
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

void WindowedSampler::draw(std::int64_t epoch, std::int64_t first, std::span<Draw> out) const {
    const auto shards = sequence(epoch);
    std::int64_t window = -1;
    Permutation permutation(0, 0, 0);
    for (std::size_t i = 0; i < out.size(); ++i) {
        const std::int64_t position = first + static_cast<std::int64_t>(i);
        if (position / window_ != window) {
            window = position / window_;
            permutation = Permutation(std::min(window_, size_ - window * window_), seed_,
                                      static_cast<std::uint32_t>(epoch), kWindows + static_cast<std::uint64_t>(window));
        }
        const std::int64_t place = window * window_ + permutation(position % window_);
        const auto shard =
            static_cast<std::size_t>(std::ranges::upper_bound(shards->ends, place) - shards->ends.begin());
        const std::int64_t begin = shard == 0 ? 0 : shards->ends[shard - 1];
        out[i] = {.index = shards->firsts[shard] + place - begin};
    }
}

std::string WindowedSampler::name() const {
    const std::uint64_t shards = hash_bytes(std::as_bytes(std::span(begins_)));
    return fmt::format("windows of {}, {} shards {:016x}", window_, begins_.size() - 1, shards);
}

}  // namespace stoker
