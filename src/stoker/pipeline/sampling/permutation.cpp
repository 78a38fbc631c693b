// Alternating Feistel rounds on a high and a low half, whose widths may differ by one bit. Each round is invertible for
// any mixing function, so together they are a permutation of [0, 2^bits).
#include "stoker/pipeline/sampling/permutation.h"

#include <algorithm>
#include <bit>

#include "stoker/base/rng.h"

namespace stoker {
namespace {

// The finaliser of MurmurHash3 (Appleby, public domain): every input bit reaches every output bit.
constexpr std::uint64_t mix(std::uint64_t x) {
    x ^= x >> 33;
    x *= 0xff51afd7ed558ccdULL;
    x ^= x >> 33;
    x *= 0xc4ceb9fe1a85ec53ULL;
    return x ^ (x >> 33);
}

// Halves of fewer than four bits mix poorly, so small sets use eight bits and repeat more often.
constexpr int kMinBits = 8;
// The random stream of the order; ops use streams from 0 up.
constexpr std::uint16_t kOrderOp = 0xFFFF;

}  // namespace

Permutation::Permutation(std::int64_t size, std::uint64_t seed, std::uint32_t epoch, std::uint64_t stream)
    : size_(size) {
    const auto last = static_cast<std::uint64_t>(std::max<std::int64_t>(size, 1) - 1);
    const int bits = std::max(static_cast<int>(std::bit_width(last)), kMinBits);
    low_bits_ = bits / 2;
    low_mask_ = (std::uint64_t{1} << low_bits_) - 1;
    high_mask_ = (std::uint64_t{1} << (bits - low_bits_)) - 1;
    Rng rng({.seed = seed, .epoch = epoch, .sample = stream, .op = kOrderOp});
    for (auto& key : keys_) {
        const std::uint64_t high = rng.next();
        key = high << 32 | rng.next();
    }
}

std::int64_t Permutation::operator()(std::int64_t i) const {
    auto value = static_cast<std::uint64_t>(i);
    do {
        std::uint64_t high = value >> low_bits_;
        std::uint64_t low = value & low_mask_;
        for (std::size_t round = 0; round < kRounds; round += 2) {
            high ^= mix(low ^ keys_[round]) & high_mask_;
            low ^= mix(high ^ keys_[round + 1]) & low_mask_;
        }
        value = high << low_bits_ | low;
    } while (value >= static_cast<std::uint64_t>(size_));
    return static_cast<std::int64_t>(value);
}

}  // namespace stoker
