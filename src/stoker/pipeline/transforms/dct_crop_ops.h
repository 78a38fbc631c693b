// Which transforms a device can finish from crops of dct records (Transform::dct_crop).
#pragma once

#include <cstdint>
#include <optional>

#include "stoker/codecs/dct/dct_crop.h"
#include "stoker/pipeline/transforms/transform.h"

namespace stoker {

// The most memory that the samples and pixels of one crop take on a device.
inline constexpr std::int64_t kMostDecoded = std::int64_t{64} << 20;

// The bytes of its samples, then of its pixels. Each begins at a multiple of kDctCropAlignment.
struct DecodedBytes {
    std::uint64_t samples = 0;
    std::uint64_t pixels = 0;

    std::uint64_t sum() const { return samples + pixels; }
};
DecodedBytes decoded_bytes(const DctCrop& crop);

// The first op that a device cannot do. Empty where it can do all: one resize before any flip, crops without padding
// before a vertical_flip, then the ops of output_ops.h. The host still makes an image whose crop reaches outside.
std::optional<HostOp> find_not_dct_crop(const OpSlice& slice);

}  // namespace stoker
