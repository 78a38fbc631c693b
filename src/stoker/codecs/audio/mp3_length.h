// The length of an MP3 without a header that says it. libsndfile estimates that by the first frame's bit rate, and
// reads no further.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace stoker {

// Samples of one channel, counted by the frames' headers (ISO 11172-3 and 13818-3, 2.4.1.3). Empty for a file whose
// first frame is a Xing, Info or VBRI header, and for one without frames of a known length.
std::optional<std::int64_t> counted_mp3_samples(std::span<const std::byte> file);

}  // namespace stoker
