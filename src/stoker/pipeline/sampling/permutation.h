// A seeded pseudo-random permutation of [0, size), computed point by point in O(1) memory: a Feistel network over the
// next power of two, repeated until the value falls inside the range (cycle walking).
#pragma once

#include <array>
#include <cstdint>

namespace stoker {

class Permutation {
  public:
    // `size` in [0, 2^62], `stream` below 2^48. Different (seed, epoch, stream) give unrelated permutations.
    Permutation(std::int64_t size, std::uint64_t seed, std::uint32_t epoch, std::uint64_t stream = 0);

    std::int64_t size() const { return size_; }
    // The image of `i` in [0, size).
    std::int64_t operator()(std::int64_t i) const;

  private:
    static constexpr std::size_t kRounds = 8;

    std::int64_t size_;
    int low_bits_;
    std::uint64_t low_mask_;
    std::uint64_t high_mask_;
    std::array<std::uint64_t, kRounds> keys_;
};

}  // namespace stoker
