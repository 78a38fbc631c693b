// XXH3, 64 bits: identifies the samples of a step (batch_hash), splits data by key, checks payloads. The same bytes
// give the same value on every machine and in every release.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace stoker {

// The same function for long inputs: AVX2 where the processor has it, and prefetching far ahead.
std::uint64_t hash_long_bytes(std::span<const std::byte> bytes, std::uint64_t seed);

inline std::uint64_t hash_bytes(std::span<const std::byte> bytes, std::uint64_t seed = 0) {
    constexpr std::size_t kShort = 4096;  // a function call costs more than it saves below this
    return bytes.size() <= kShort ? XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed)
                                  : hash_long_bytes(bytes, seed);
}

inline std::uint64_t hash_text(std::string_view text, std::uint64_t seed = 0) {
    return XXH3_64bits_withSeed(text.data(), text.size(), seed);
}

// The same value for bytes that arrive in pieces.
class StreamHash {
  public:
    StreamHash() { reset(); }
    void reset() { XXH3_64bits_reset(&state_); }
    void update(std::span<const std::byte> bytes) { XXH3_64bits_update(&state_, bytes.data(), bytes.size()); }
    std::uint64_t value() const { return XXH3_64bits_digest(&state_); }

  private:
    XXH3_state_t state_;
};

}  // namespace stoker
