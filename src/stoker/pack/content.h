// What a data set holds, as one number: keys, labels, geometry and bytes of its samples, in order. Equal for what was
// given to a target and for what a reader finds in it.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "stoker/base/hash.h"

namespace stoker {

// Height, width and channels: of raw pixels, 0 for encoded images.
inline std::uint64_t sample_hash(std::string_view key, std::int64_t label, const std::array<std::int64_t, 3>& geometry,
                                 std::span<const std::byte> bytes) {
    const std::array<std::int64_t, 4> numbers = {label, geometry[0], geometry[1], geometry[2]};
    return hash_bytes(bytes, hash_bytes(std::as_bytes(std::span(numbers)), hash_text(key)));
}

inline std::uint64_t add_to_content(std::uint64_t content, std::uint64_t sample) {
    const std::array<std::uint64_t, 2> both = {content, sample};
    return hash_bytes(std::as_bytes(std::span(both)));
}

}  // namespace stoker
