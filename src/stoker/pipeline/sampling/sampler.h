// Maps positions of an epoch to sample indices: a function of (seed, epoch, position) alone, evaluated point by point,
// so workers, ranks and restarts cannot change it. No list of indices is stored, except for groups that are given as
// one.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace stoker {

// The sample at one position of an epoch.
struct SampledIndex {
    std::int64_t index = 0;
    std::uint16_t occurrence = 0;  // differs if an epoch has the sample again, so its augmentation differs too
};

// Derive from it for an order of your own (LoaderOptions::sampler).
class Sampler {
  public:
    virtual ~Sampler() = default;

    virtual std::int64_t size() const = 0;  // positions in an epoch

    // The samples at positions [first, first + out.size()) of the epoch. Thread-safe.
    virtual void draw(std::int64_t epoch, std::int64_t first, std::span<SampledIndex> out) const = 0;

    virtual std::int64_t samples() const = 0;  // in the data set
    virtual std::uint64_t seed() const = 0;

    // The sample that replaces the one at `position` of the epoch if that is bad: the choice of `attempt` 0, 1, ...;
    // a choice may also be bad, or the same sample. Empty when all choices were returned. One attempt has different
    // choices for different positions, so no sample replaces many others. A derived class chooses by groups or
    // windows; by default the samples of the whole epoch are tried. Thread-safe.
    virtual std::optional<std::int64_t> substitute(std::int64_t epoch, std::int64_t position,
                                                   std::int64_t attempt) const;

    // Everything but the seed that the order depends on. A loader's state can be restored only with a sampler of the
    // same name.
    virtual std::string name() const = 0;
};

// How many substitutes are tried for one sample. More bad ones in a row are more than `budget` in an epoch, or a fault
// that all samples have: to go on would read the whole data set for one error.
constexpr std::int64_t most_substitutes(std::int64_t budget) {
    return budget > 100 ? budget : 100;
}

// Samples with equal probability: a class, or one of several data sets.
struct SamplerGroup {
    double weight = 1;       // its share of an epoch is weight / sum of weights
    std::int64_t first = 0;  // samples [first, first + size), or
    std::int64_t size = 0;
    std::vector<std::int64_t> indices = {};  // these, if not empty

    std::int64_t count() const { return indices.empty() ? size : static_cast<std::int64_t>(indices.size()); }
    std::int64_t at(std::int64_t i) const { return indices.empty() ? first + i : indices[static_cast<std::size_t>(i)]; }
};

struct SamplerOptions {
    std::int64_t size = 0;  // samples of the data set
    std::uint64_t seed = 0;
    bool shuffle = true;
    // Samples per epoch; 0: `size`. An epoch continues the pass of the one before, so with half of `size` each sample
    // comes once in two epochs.
    std::int64_t epoch_samples = 0;
    // Shuffles the shards, then samples only within windows of this many, so that reading stays almost sequential;
    // 0: shuffles the whole data set.
    std::int64_t window = 0;
    std::vector<std::int64_t> shards = {};  // their sizes; empty: blocks of a sixteenth of a window are used
    std::vector<SamplerGroup> groups = {};  // weighted sampling; not together with a window
};

// A sequential, shuffled, windowed or weighted sampler. Throws InvalidArgument for impossible options.
std::shared_ptr<const Sampler> make_sampler(const SamplerOptions& options);

}  // namespace stoker
