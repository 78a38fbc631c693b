// make_sampler, and the sampler for sequential and fully shuffled order.
#include "stoker/pipeline/sampling/sampler.h"

#include <fmt/format.h>
#include <limits>

#include "stoker/base/error.h"
#include "stoker/pipeline/sampling/permutation.h"
#include "stoker/pipeline/sampling/sampler_pass.h"

namespace stoker {
namespace {

// Passes over the data set, each with its own permutation.
class PermutationSampler final : public Sampler {
  public:
    explicit PermutationSampler(const SamplerOptions& options)
        : size_(options.size),
          epoch_samples_(options.epoch_samples == 0 ? options.size : options.epoch_samples),
          seed_(options.seed),
          shuffle_(options.shuffle) {
        check_occurrences(epoch_samples_, size_);
    }

    std::int64_t size() const override { return epoch_samples_; }
    std::int64_t samples() const override { return size_; }
    std::uint64_t seed() const override { return seed_; }

    void draw(std::int64_t epoch, std::int64_t first, std::span<SampledIndex> out) const override {
        const PassPosition begin = pass_position(epoch, epoch_samples_, 0, size_);
        PassPosition at = pass_position(epoch, epoch_samples_, first, size_);
        Permutation permutation = permutation_of(at.pass);
        for (SampledIndex& sampled : out) {
            if (at.position == size_) {
                at = {at.pass + 1, 0};
                permutation = permutation_of(at.pass);
            }
            sampled = {.index = shuffle_ ? permutation(at.position) : at.position,
                       .occurrence = static_cast<std::uint16_t>(at.pass - begin.pass)};
            ++at.position;
        }
    }

    std::optional<std::int64_t> substitute(std::int64_t epoch, std::int64_t position,
                                           std::int64_t attempt) const override {
        const PassPosition at = pass_position(epoch, epoch_samples_, position, size_);
        return substitute_place(size_, at.position, attempt, seed_, at.pass, 0);
    }

    std::string name() const override {
        const char* kind = shuffle_ ? "shuffled" : "sequential";
        return epoch_samples_ == size_ ? kind : fmt::format("{}, {} an epoch", kind, epoch_samples_);
    }

  private:
    Permutation permutation_of(std::uint64_t pass) const {
        return {size_, seed_, static_cast<std::uint32_t>(pass), pass >> 32};
    }

    std::int64_t size_;
    std::int64_t epoch_samples_;
    std::uint64_t seed_;
    bool shuffle_;
};

// Permutation streams: groups use those from 2^44.
constexpr std::uint64_t kPlaceStreams = std::uint64_t{1} << 45;
constexpr std::uint64_t kShiftStreams = std::uint64_t{1} << 46;

}  // namespace

std::optional<std::int64_t> Sampler::substitute(std::int64_t epoch, std::int64_t position, std::int64_t attempt) const {
    const auto other = substitute_place(size(), position, attempt, seed(), static_cast<std::uint64_t>(epoch), 0);
    if (!other) {
        return std::nullopt;
    }
    SampledIndex drawn;
    draw(epoch, *other, std::span(&drawn, 1));
    return drawn.index;
}

// A row of a Latin square for each attempt: the places, shifted by an amount that no other attempt has, and permuted.
std::optional<std::int64_t> substitute_place(std::int64_t size, std::int64_t place, std::int64_t attempt,
                                             std::uint64_t seed, std::uint64_t epoch, std::uint64_t part) {
    if (attempt < 0 || attempt >= size) {
        return std::nullopt;
    }
    // Passes may need more than 32 bits, so the high bits go into the seed.
    const auto permutation = [&](std::uint64_t streams) {
        return Permutation(size, seed ^ epoch >> 32, static_cast<std::uint32_t>(epoch), streams + part);
    };
    const std::int64_t shift = permutation(kShiftStreams)(attempt);
    const std::int64_t shifted = place < size - shift ? place + shift : place - (size - shift);
    return permutation(kPlaceStreams)(shifted);
}

void check_occurrences(std::int64_t drawn, std::int64_t size) {
    constexpr std::int64_t kMost = std::numeric_limits<std::uint16_t>::max();
    if (size < 1) {
        throw InvalidArgument(
            {.where = "data", .expected = "a data set of at least one sample", .got = fmt::to_string(size)});
    }
    if (drawn / size >= kMost) {
        throw InvalidArgument({.where = "data.epoch_samples",
                               .expected = fmt::format("each sample at most {} times per epoch", kMost),
                               .got = fmt::format("{} draws from {} samples", drawn, size),
                               .hint = "lower <data.epoch_samples>, or change <data.weights>"});
    }
}

std::shared_ptr<const Sampler> make_sampler(const SamplerOptions& options) {
    if (options.epoch_samples < 0 || options.window < 0) {
        throw InvalidArgument({.where = "data.epoch_samples",
                               .expected = "at least 0, as for <data.shuffle_window>",
                               .got = fmt::format("{} and {}", options.epoch_samples, options.window)});
    }
    const bool windowed = options.window > 0 && options.window < options.size && options.shuffle;
    if (windowed && (!options.groups.empty() || options.epoch_samples != 0)) {
        throw InvalidArgument(
            {.where = "data.shuffle_window",
             .expected =
                 "0, because <data.weights>, <data.balance> and <data.epoch_samples> draw from the whole data set",
             .got = fmt::to_string(options.window)});
    }
    if (!options.groups.empty()) {
        return make_weighted_sampler(options);
    }
    if (windowed) {
        return make_windowed_sampler(options);
    }
    return std::make_shared<PermutationSampler>(options);
}

}  // namespace stoker
