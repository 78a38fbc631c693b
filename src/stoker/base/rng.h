// Philox 4x32-10, the counter-based generator of Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3" (SC
// 2011). A stream of draws is a function of (seed, epoch, sample, occurrence, op) alone, so it is the same for any
// number of workers and ranks.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace stoker {

using PhiloxCounter = std::array<std::uint32_t, 4>;
using PhiloxKey = std::array<std::uint32_t, 2>;

// Ten rounds over one counter block; matches Random123's published vectors.
constexpr PhiloxCounter philox4x32(PhiloxCounter counter, PhiloxKey key) {
    for (int round = 0; round < 10; ++round) {
        const std::uint64_t a = std::uint64_t{0xD2511F53u} * counter[0];
        const std::uint64_t b = std::uint64_t{0xCD9E8D57u} * counter[2];
        counter = {static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(b),
                   static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(a)};
        key = {key[0] + 0x9E3779B9u, key[1] + 0xBB67AE85u};
    }
    return counter;
}

// Identifies a stream of random numbers. `occurrence` numbers the draws of the same sample within an epoch, `op` the
// operations on one sample. Counter layout: word 0 = op << 16 | block, words 1-2 = sample (48 bits) with occurrence in
// the top 16 bits, word 3 = epoch; key = seed. A stream has 2^16 blocks, 2^18 draws; more would overlap with the stream
// of op + 1.
struct RngKey {
    std::uint64_t seed = 0;
    std::uint32_t epoch = 0;
    std::uint64_t sample = 0;
    std::uint16_t occurrence = 0;
    std::uint16_t op = 0;
};

class Rng {
  public:
    explicit constexpr Rng(const RngKey& key)
        : counter_{std::uint32_t{key.op} << 16, static_cast<std::uint32_t>(key.sample),
                   (static_cast<std::uint32_t>(key.sample >> 32) & 0xFFFFu) | std::uint32_t{key.occurrence} << 16,
                   key.epoch},
          key_{static_cast<std::uint32_t>(key.seed), static_cast<std::uint32_t>(key.seed >> 32)} {}

    constexpr std::uint32_t next() {
        if (used_ == 4) {
            block_ = philox4x32(counter_, key_);
            ++counter_[0];
            used_ = 0;
        }
        return block_[used_++];
    }

    // Uniform in [0, 1), 24 bits.
    constexpr float uniform() { return static_cast<float>(next() >> 8) * 0x1p-24f; }
    // Uniform in [low, high]; `high` can occur by rounding.
    constexpr float uniform(float low, float high) { return low + (high - low) * uniform(); }

    // Uniform in [0, bound), bound > 0. Lemire's multiply-shift; the bias is below bound / 2^32.
    constexpr std::uint32_t below(std::uint32_t bound) {
        return static_cast<std::uint32_t>((std::uint64_t{next()} * bound) >> 32);
    }

    constexpr bool chance(float probability) { return uniform() < probability; }

    // Standard normal by Box-Muller, one value per call.
    float normal() {
        const float radius = std::sqrt(-2.0f * std::log(1.0f - uniform()));
        return radius * std::cos(6.28318530718f * uniform());
    }

  private:
    PhiloxCounter counter_;
    PhiloxKey key_;
    PhiloxCounter block_{};
    std::size_t used_ = 4;
};

}  // namespace stoker
