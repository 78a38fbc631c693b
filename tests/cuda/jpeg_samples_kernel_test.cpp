// jpeg_samples_cuda.cu on the CPU: the bits of its reference on the CPU, in every order of blocks and threads, also for
// damaged scans. The reference has those of libjpeg (tests/codecs/dct/jpeg_crop_test.cpp).
#include <gtest/gtest.h>

#include "codecs/dct/jpeg_crops.h"
#include "stoker/codecs/dct/dct.h"
#include "stoker/codecs/dct/dct_pixels_cuda.h"
#include "support/cuda_on_cpu/grid.h"
#include "support/cuda_on_cpu/guarded_array.h"

namespace stoker {
namespace {

using namespace stoker::testing;
using on_cpu::every_order;

struct Decoded {
    std::vector<std::byte> memory;
    std::vector<std::uint64_t> damaged;

    explicit Decoded(std::vector<std::byte> of, std::span<const DctCropPlace> places) : memory(std::move(of)) {
        for (const DctCropPlace& place : places) {
            damaged.push_back(place.damaged);
        }
    }
    bool operator==(const Decoded&) const = default;
};

Decoded after_kernels(DctCropMemory crops) {
    GuardedArray<std::byte> memory(crops.memory);
    GuardedArray<DctCropPlace> places(crops.places);
    DctCropBatch batch = crops.batch();
    batch.memory = memory.data();
    batch.places = places.data();
    dct_pixels_cuda(batch, nullptr);
    return Decoded(memory.values(), places.values());
}

Decoded after_reference(DctCropMemory crops) {
    dct_pixels(crops.batch());
    return Decoded(crops.memory, crops.places);
}

TEST(JpegSamplesKernel, HasTheBitsOfTheCpu) {
    Rng rng({.seed = 12});
    JpegCropper cropper;
    for (int i = 0; i < 5; ++i) {
        DctCropMemory all;
        for (int k = 0; k < 8; ++k) {
            const JpegPlan plan = plan_with_points(rng);
            const Bytes jpeg = make_jpeg(plan);
            cropper.open(jpeg);
            const EntryPoints points = points_of(jpeg);
            all.add(cropper.crop({0, 0, plan.height, plan.width}, points, kAllBytes));
            all.add_nothing();
            all.add(cropper.crop(random_box(rng, plan.height, plan.width), points, kAllBytes));
        }
        const Decoded expected = after_reference(all);
        EXPECT_EQ(expected.damaged, std::vector<std::uint64_t>(all.places.size(), 0));
        every_order([&] { ASSERT_TRUE(after_kernels(all) == expected); });
    }
}

// Several blocks of threads for one image, and a record.
TEST(JpegSamplesKernel, ALargeImage) {
    const Bytes jpeg = make_jpeg({.width = 900, .height = 700, .quality = 95, .content = Content::noise});
    DctCropMemory memory = memory_of(jpeg, {0, 0, 700, 900});
    EXPECT_GT(memory.pieces, 256U);
    DctCropper cropper;
    const Bytes record = encode_dct(make_jpeg({.width = 100, .height = 80})).bytes;
    cropper.open(record);
    memory.add(cropper.crop({3, 5, 60, 70}, kAllBytes));
    EXPECT_TRUE(after_kernels(memory) == after_reference(memory));
}

// The longest codes and values: no encoder's picture has them all.
TEST(JpegSamplesKernel, TakesCodesOfAllLengths) {
    for (const int quality : {1, 100}) {
        for (const bool optimize : {false, true}) {
            const JpegPlan plan{.width = 320,
                                .height = 240,
                                .h = {1, 1, 1},
                                .v = {1, 1, 1},
                                .quality = quality,
                                .optimize = optimize,
                                .content = optimize ? Content::photo : Content::stripes};
            const DctCropMemory memory = memory_of(make_jpeg(plan), {0, 0, 240, 320});
            EXPECT_TRUE(after_kernels(memory) == after_reference(memory)) << plan.text();
        }
    }
}

// Flipped bits, and random bytes and DC values: grey blocks from the damage on, and nothing is written elsewhere.
TEST(JpegSamplesKernel, SeesDamageAsTheCpuDoes) {
    Rng rng({.seed = 40});
    int seen = 0;
    for (int i = 0; i < 60; ++i) {
        JpegPlan plan = plan_with_points(rng);
        plan.width = std::min(plan.width, 100);
        plan.height = std::min(plan.height, 60);
        DctCropMemory memory = memory_of(make_jpeg(plan), random_box(rng, plan.height, plan.width));
        std::byte* const crop = memory.memory.data() + memory.places[0].crop;
        const auto& head = *reinterpret_cast<const DctCrop*>(crop);
        const auto& scan = *reinterpret_cast<const JpegScan*>(crop + sizeof head);
        auto* const pieces = reinterpret_cast<JpegPiece*>(crop + sizeof head + sizeof scan);
        flip_a_bit(memory, rng);
        if (i % 3 == 1) {
            for (std::uint32_t at = 0; at < pieces[head.pieces - 1].end / 8; ++at) {
                crop[scan.bytes + at] = static_cast<std::byte>(rng.below(256));
            }
        } else if (i % 3 == 2) {
            pieces[rng.below(head.pieces)].dc[0] = 32767;
        }
        const Decoded expected = after_reference(memory);
        every_order([&] { ASSERT_TRUE(after_kernels(memory) == expected) << plan.text(); });
        seen += expected.damaged[0] != 0 ? 1 : 0;
    }
    EXPECT_GT(seen, 40);
}

// Damage that another end of the piece, or other DC values there, would show alone.
TEST(JpegSamplesKernel, ComparesTheEnds) {
    const DctCropMemory good = memory_of(make_jpeg({.width = 160, .height = 120}), {0, 0, 120, 160});
    EXPECT_EQ(after_kernels(good).damaged[0], 0U);
    for (int i = 0; i < 4; ++i) {
        DctCropMemory memory = good;
        auto* const piece = reinterpret_cast<JpegPiece*>(memory.memory.data() + memory.places[0].crop +
                                                         sizeof(DctCrop) + sizeof(JpegScan));
        if (i == 3) {
            ++piece[1].end;
        } else {
            ++piece[1].end_dc[i];
        }
        const Decoded decoded = after_kernels(memory);
        EXPECT_EQ(decoded.damaged[0], 1U) << i;
        EXPECT_EQ(after_reference(memory).damaged[0], 1U) << i;
    }
}

// Counts that only the host could make: no block outside of its plane is written.
TEST(JpegSamplesKernel, WritesNothingOutside) {
    DctCropMemory memory = memory_of(make_jpeg({.width = 64, .height = 48}), {0, 0, 48, 64});
    auto* const piece =
        reinterpret_cast<JpegPiece*>(memory.memory.data() + memory.places[0].crop + sizeof(DctCrop) + sizeof(JpegScan));
    piece->count = 500;
    EXPECT_TRUE(after_kernels(memory) == after_reference(memory));
    piece->mcu_row = 60000;
    EXPECT_TRUE(after_kernels(memory) == after_reference(memory));
}

}  // namespace
}  // namespace stoker
