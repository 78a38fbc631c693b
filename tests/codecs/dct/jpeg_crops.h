// Plain JPEGs with their entry points, as crops.
#pragma once

#include <limits>

#include "codecs/dct/dct_crop_memory.h"
#include "codecs/jpeg/jpeg_files.h"
#include "stoker/codecs/dct/jpeg_crop.h"
#include "stoker/codecs/jpeg/jpeg.h"

namespace stoker::testing {

inline constexpr std::size_t kAllBytes = std::numeric_limits<std::size_t>::max();

inline EntryPoints points_of(const Bytes& jpeg) {
    JpegDecoder decoder;
    EntryPointSlot points;
    decoder.find_points(jpeg, points);
    return points.known;
}

// One baseline scan without restart markers, of any sampling that BlockDecoder takes.
inline JpegPlan plan_with_points(Rng& rng) {
    struct Sampling {
        std::array<int, 3> h;
        std::array<int, 3> v;
    };
    constexpr Sampling kSamplings[] = {{{1, 1, 1}, {1, 1, 1}}, {{2, 1, 1}, {1, 1, 1}}, {{2, 1, 1}, {2, 1, 1}},
                                       {{1, 1, 1}, {2, 1, 1}}, {{4, 1, 1}, {1, 1, 1}}, {{4, 1, 1}, {2, 1, 1}},
                                       {{1, 2, 1}, {1, 2, 1}}, {{1, 1, 1}, {4, 1, 2}}};
    const auto below = [&rng](int bound) { return static_cast<int>(rng.below(static_cast<std::uint32_t>(bound))); };
    const Sampling& sampling = kSamplings[rng.below(std::size(kSamplings))];
    return {.width = 1 + below(rng.chance(0.2f) ? 8 : 220),
            .height = 1 + below(rng.chance(0.2f) ? 8 : 160),
            .colors = std::array{Colors::grey, Colors::ycc, Colors::ycc, Colors::ycc, Colors::rgb}[rng.below(5)],
            .h = sampling.h,
            .v = sampling.v,
            .quality = rng.chance(0.3f) ? 100 : 1 + below(100),
            .optimize = rng.chance(0.4f),
            .trailing = below(3),
            .content = static_cast<Content>(rng.below(4)),
            .seed = rng.next()};
}

inline DctCropMemory memory_of(const Bytes& jpeg, const Box& box) {
    JpegCropper cropper;
    cropper.open(jpeg);
    DctCropMemory memory;
    memory.add(cropper.crop(box, points_of(jpeg), kAllBytes));
    return memory;
}

// One of the bits of the first crop's scan.
inline void flip_a_bit(DctCropMemory& memory, Rng& rng) {
    std::byte* const crop = memory.memory.data() + memory.places[0].crop;
    const auto& head = *reinterpret_cast<const DctCrop*>(crop);
    const auto& scan = *reinterpret_cast<const JpegScan*>(crop + sizeof head);
    const auto* const pieces = reinterpret_cast<const JpegPiece*>(crop + sizeof head + sizeof scan);
    const std::uint32_t bit = rng.below(pieces[head.pieces - 1].end);
    crop[scan.bytes + bit / 8] ^= std::byte{0x80} >> (bit % 8);
}

}  // namespace stoker::testing
