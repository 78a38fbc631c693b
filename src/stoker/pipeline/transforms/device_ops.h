// The ops that a device runs: which they are, and their draws, from the random streams that the host would use. For
// images on a device they are one gather (ops/gather.h), from crops of dct records one assemble
// (Transform::dct_crop). Behind crops, resizes and flips both run changes of colours, then one random_erasing.
#pragma once

#include <cstdint>
#include <optional>

#include "stoker/base/rng.h"
#include "stoker/codecs/dct/dct_crop.h"
#include "stoker/ops/gather.h"
#include "stoker/pipeline/transforms/transform.h"

namespace stoker {

// The same for all samples.
struct OutputOps {
    bool colors = false;                          // some of them change colours
    std::optional<Color> erased_value = Color{};  // of random_erasing; empty: random bytes
};
OutputOps output_ops(const OpSlice& slice);

// The first op that a gather cannot do. Empty where a gather can do them all: at most one crop, and a
// random_resized_crop before any flip; flips; then colours and random_erasing.
std::optional<HostOp> find_not_gathered(const OpSlice& slice);

// What these ops have in common for all samples, and the size of their output for images of size `image`.
struct GatherPlan {
    GatherOps ops;
    ImageSize to;
};
GatherPlan gather_plan(const OpSlice& slice, ImageSize image);

// Draws for one image of size `image`; sets everything but `image`. Throws what the ops throw.
GatherDraw draw_gather(const OpSlice& slice, ImageSize image, RngKey key);

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
// before a vertical_flip, then colours and random_erasing. The host still makes an image whose crop reaches outside.
std::optional<HostOp> find_not_dct_crop(const OpSlice& slice);

}  // namespace stoker
