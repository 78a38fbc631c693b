// dct_pixels_cuda.cu on the CPU: the bits of its reference on the CPU, in every order of blocks and threads. The
// reference has those of the decoder (tests/codecs/dct/dct_crop_test.cpp).
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <limits>

#include "codecs/dct/dct_crop_memory.h"
#include "stoker/base/rng.h"
#include "stoker/codecs/dct/dct.h"
#include "stoker/codecs/dct/dct_pixels_cuda.h"
#include "stoker/codecs/dct/dct_record.h"
#include "stoker/codecs/dct/dct_segment.h"
#include "support/cuda_on_cpu/grid.h"
#include "support/cuda_on_cpu/guarded_array.h"

namespace stoker {
namespace {

using on_cpu::every_order;
using testing::Bytes;
using testing::DctCropMemory;
using testing::GuardedArray;

struct Kind {
    FrameColor color = FrameColor::ycc;
    int h[3] = {1, 1, 1};
    int v[3] = {1, 1, 1};
    int width = 40;
    int height = 30;
    int largest = 12;      // of a coefficient; beyond 127 it is stored wide
    double density = 0.2;  // of coefficients that are not 0
};

// A record of random coefficients, as no encoder would write them.
Bytes record_of(const Kind& kind, std::uint64_t seed) {
    Rng rng({.seed = seed});
    const auto below = [&rng](int bound) { return static_cast<int>(rng.below(static_cast<std::uint32_t>(bound))); };
    DctHeader header;
    JpegFrame& frame = header.frame;
    frame.width = kind.width;
    frame.height = kind.height;
    frame.color = kind.color;
    frame.components = kind.color == FrameColor::grey ? 1 : 3;
    for (std::size_t c = 0; c < 3; ++c) {
        frame.component[c].h = kind.h[c];
        frame.component[c].v = kind.v[c];
        for (std::uint16_t& step : frame.component[c].quant) {
            step = static_cast<std::uint16_t>(1 + below(40));
        }
    }
    frame.compute_layout();
    Bytes body;
    for (int row = 0; row < frame.mcus_high; ++row) {
        for (int c = 0; c < frame.components; ++c) {
            const FrameComponent& component = frame.component[JpegFrame::at(c)];
            for (int i = 0; i < component.v; ++i) {
                std::vector<std::int16_t> blocks(static_cast<std::size_t>(kBlockSize * component.blocks_wide));
                for (std::size_t k = 0; k < blocks.size(); ++k) {
                    const bool only_first_row = k / kBlockSize % 5 == 3 && k % kBlockSize >= 8;
                    if (k % kBlockSize == 0 || (!only_first_row && rng.chance(static_cast<float>(kind.density)))) {
                        blocks[k] = static_cast<std::int16_t>(below(2 * kind.largest + 1) - kind.largest);
                    }
                }
                SegmentParts parts;
                write_segment(blocks.data(), component.blocks_wide, parts);
                const std::size_t begin = body.size();
                for (const auto* part : {&parts.front, &parts.masks, &parts.values, &parts.escapes}) {
                    body.insert(body.end(), part->begin(), part->end());
                }
                header.ends.push_back(static_cast<std::uint32_t>(body.size()));
                EXPECT_GT(body.size(), begin);
            }
        }
    }
    header.body = body;
    return write_dct_record(header);
}

void add_cut(DctCropMemory& memory, const Kind& kind, const Box& box, std::uint64_t seed = 1) {
    DctCropper cropper;
    const Bytes record = record_of(kind, seed);
    cropper.open(record);
    memory.add(cropper.crop(box, std::numeric_limits<std::size_t>::max()));
}

std::vector<std::byte> after_kernels(const DctCropMemory& crops) {
    GuardedArray<std::byte> memory(crops.memory);
    GuardedArray<DctCropPlace> places(crops.places);
    DctCropMemory copy = crops;
    DctCropBatch batch = copy.batch();
    batch.memory = memory.data();
    batch.places = places.data();
    dct_pixels_cuda(batch, nullptr);
    return memory.values();
}

std::vector<std::byte> after_reference(DctCropMemory crops) {
    dct_pixels(crops.batch());
    return crops.memory;
}

std::vector<Kind> kinds() {
    return {{},
            {.h = {2, 1, 1}, .v = {1, 1, 1}},
            {.h = {2, 1, 1}, .v = {2, 1, 1}, .width = 77},
            {.h = {1, 1, 1}, .v = {2, 1, 1}},
            {.h = {4, 1, 1}, .v = {2, 1, 1}},
            {.h = {2, 1, 1}, .v = {2, 1, 1}, .width = 3, .height = 5},
            {.color = FrameColor::grey, .width = 300, .height = 9},  // more blocks in a row than a warp has lanes
            {.color = FrameColor::rgb},
            {.largest = 100, .density = 0.9},                                     // escapes
            {.h = {2, 1, 1}, .v = {2, 1, 1}, .largest = 32767, .density = 1.0}};  // wide values, and sums that wrap
}

TEST(DctPixelsKernel, HasTheBitsOfTheCpu) {
    DctCropMemory all;
    std::uint64_t seed = 0;
    for (const Kind& kind : kinds()) {
        add_cut(all, kind, {0, 0, kind.height, kind.width}, ++seed);
        all.add_nothing();
        add_cut(all, kind, {kind.height / 3, kind.width / 2, kind.height / 3, kind.width / 3}, ++seed);
        add_cut(all, kind, {kind.height - 1, kind.width - 1, 1, 1}, ++seed);
    }
    const std::vector<std::byte> expected = after_reference(all);
    EXPECT_NE(expected, all.memory);
    every_order([&] { ASSERT_EQ(after_kernels(all), expected); });
}

// Several blocks of threads for one image.
TEST(DctPixelsKernel, ALargeImage) {
    DctCropMemory memory;
    const Kind kind{.h = {2, 1, 1}, .v = {2, 1, 1}, .width = 333, .height = 201};
    add_cut(memory, kind, {0, 0, kind.height, kind.width});
    EXPECT_EQ(after_kernels(memory), after_reference(memory));
}

// The last bit of a mask of eight bytes does not stand for a coefficient; its value is skipped.
TEST(DctPixelsKernel, TheLastBitOfAMask) {
    DctCropMemory memory;
    add_cut(memory, {.color = FrameColor::grey, .width = 64, .height = 8, .density = 1.0}, {0, 0, 8, 64});
    const std::vector<std::byte> plain = after_reference(memory);
    const auto* const row =
        reinterpret_cast<const DctCropRow*>(memory.memory.data() + memory.places[0].crop + sizeof(DctCrop));
    ASSERT_EQ(row->blocks, 8);
    std::byte* const masks = memory.memory.data() + memory.places[0].crop + row->at + 3 * row->blocks;
    masks[7] |= std::byte{0x80};  // all later values move on by one
    ASSERT_NE(after_reference(memory), plain);
    EXPECT_EQ(after_kernels(memory), after_reference(memory));
}

// Each planted difference shows.
TEST(DctPixelsKernel, AWrongByteIsSeen) {
    DctCropMemory memory;
    const Kind kind{.h = {2, 1, 1}, .v = {2, 1, 1}, .largest = 100};
    add_cut(memory, kind, {3, 2, 20, 30});
    const auto pixels = [&](const std::vector<std::byte>& of) {
        const auto begin = of.begin() + static_cast<std::ptrdiff_t>(memory.places[0].pixels);
        return Bytes(begin, begin + 3 * 20 * 30);
    };
    const Bytes expected = pixels(after_reference(memory));
    const std::vector<std::function<void(DctCrop&, DctCropRow&)>> plants = {
        [](DctCrop& crop, DctCropRow&) { ++crop.box.top; },
        [](DctCrop& crop, DctCropRow&) { ++crop.box.left; },
        [](DctCrop& crop, DctCropRow&) { crop.color = static_cast<std::uint32_t>(FrameColor::rgb); },
        [](DctCrop& crop, DctCropRow&) { crop.planes[1].smooth_h = 0; },
        [](DctCrop& crop, DctCropRow&) { crop.planes[2].smooth_v = 0; },
        [](DctCrop& crop, DctCropRow&) { crop.planes[0].quant[1] += 3; },
        [](DctCrop&, DctCropRow& row) { row.odd ^= 1; },
        [](DctCrop&, DctCropRow& row) { --row.escapes; },
        [](DctCrop& crop, DctCropRow&) { --crop.rows; },
    };
    EXPECT_EQ(pixels(after_kernels(memory)), expected);
    for (std::size_t i = 0; i < plants.size(); ++i) {
        DctCropMemory planted = memory;
        auto* const crop = reinterpret_cast<DctCrop*>(planted.memory.data() + memory.places[0].crop);
        plants[i](*crop, *reinterpret_cast<DctCropRow*>(crop + 1));
        EXPECT_NE(pixels(after_kernels(planted)), expected) << i;
    }
}

// A fault that only the host could make: the guards see it.
TEST(DctPixelsKernel, AReadOutsideIsSeen) {
    DctCropMemory memory;
    add_cut(memory, {}, {0, 0, 30, 40});
    auto* const crop = reinterpret_cast<DctCrop*>(memory.memory.data() + memory.places[0].crop);
    auto& row = *reinterpret_cast<DctCropRow*>(crop + 1);
    row.values =
        static_cast<std::uint32_t>(memory.memory.size() - memory.places[0].crop - row.at);  // the end of memory
    EXPECT_DEATH(after_kernels(memory), "");
}

}  // namespace
}  // namespace stoker
