// The payload of an image of codec `clip`: a table of frames, which may have different codecs, and their bytes.
// FORMAT.md specifies it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "stoker/formats/dataset.h"
#include "stoker/formats/stk/stk_schema.h"

namespace stoker {

inline constexpr std::int64_t kMostStkFrames = 65535;  // of a clip

std::vector<std::byte> write_stk_clip(std::span<const StkImage> frames);

// The number of frames. Throws DataError for a payload that is too short for its table.
std::int64_t stk_clip_frames(std::span<const std::byte> payload);

// Frame `number`, which must be in range. Throws DataError for one that is not within the payload.
StkImage stk_clip_frame(std::span<const std::byte> payload, std::int64_t number);

// `value` refers to the frames in `payload` that `value.wanted` names.
void set_stk_clip(std::span<const std::byte> payload, FieldValue& value);

// `value` refers to the image of any codec but `clip`.
void set_stk_image(const StkImage& image, FieldValue& value);

}  // namespace stoker
