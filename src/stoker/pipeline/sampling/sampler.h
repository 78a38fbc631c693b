// Which sample lies at which position of an epoch: a function of (seed, epoch, position) alone, evaluated point by
// point, so that workers, ranks and restarts cannot change it. Nobody keeps a list of indices but for groups that are
// given as such.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace stoker {

struct Draw {
    std::int64_t index = 0;        // of the sample
    std::uint16_t occurrence = 0;  // how often it came before in this epoch, at most: tells its augmentations apart
};

class Sampler {
  public:
    virtual ~Sampler() = default;

    virtual std::int64_t size() const = 0;  // positions of an epoch

    // The samples at positions [first, first + out.size()) of the epoch. Many threads at once.
    virtual void draw(std::int64_t epoch, std::int64_t first, std::span<Draw> out) const = 0;

    // Samples of the data set that is drawn from, and the seed.
    virtual std::int64_t samples() const = 0;
    virtual std::uint64_t seed() const = 0;

    // The sample to try in place of `index`, which is bad: the next one that is drawn with the same weight. Repeated,
    // it comes to all of those.
    virtual std::int64_t next(std::int64_t index) const { return (index + 1) % samples(); }

    // Everything but the seed that the order depends on: a loader's state fits only a loader whose order has the
    // same name.
    virtual std::string name() const = 0;
};

// Samples of which each has the same chance: a class, or one of several sources.
struct SamplerGroup {
    double weight = 1;       // its share of an epoch is weight / sum of weights
    std::int64_t first = 0;  // samples [first, first + size), or
    std::int64_t size = 0;
    std::vector<std::int64_t> indices = {};  // these, where there are any; `first` and `size` are then not used

    std::int64_t count() const { return indices.empty() ? size : static_cast<std::int64_t>(indices.size()); }
    std::int64_t at(std::int64_t i) const { return indices.empty() ? first + i : indices[static_cast<std::size_t>(i)]; }
};

struct SamplerOptions {
    std::int64_t size = 0;  // samples of the data set
    std::uint64_t seed = 0;
    bool shuffle = true;
    // Samples that an epoch draws; 0: `size`. Passes over the data set go on from epoch to epoch, so with half of
    // `size` each sample comes once in two epochs.
    std::int64_t epoch_samples = 0;
    // Shuffles only within this many samples of a sequence of shuffled shards, so that reading stays almost
    // sequential; 0: over everything.
    std::int64_t window = 0;
    std::vector<std::int64_t> shards = {};  // their sizes; empty: blocks of a sixteenth of a window
    std::vector<SamplerGroup> groups = {};  // weighted sampling; with a window it is refused
};

// The order that the options describe: `shuffled_sampler` or `windowed_order` or `weighted_order`. Throws
// InvalidArgument for options that cannot be.
std::shared_ptr<const Sampler> make_sampler(const SamplerOptions& options);

}  // namespace stoker
