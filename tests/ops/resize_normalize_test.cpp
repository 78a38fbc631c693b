// Every kernel set compared with the reference: random sizes, windows, parts, flips, layouts and types.
#include "stoker/ops/resize_normalize.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include "ops/resize_reference.h"
#include "ops/support.h"
#include "stoker/base/error.h"
#include "stoker/base/float16.h"
#include "stoker/ops/kernels.h"

namespace stoker {
namespace {

using testing::noise;

constexpr DType kTypes[] = {DType::float32, DType::bfloat16, DType::float16, DType::uint8};
constexpr Layout kLayouts[] = {Layout::chw, Layout::hwc};
constexpr std::size_t kGuard = 64;  // bytes around the target that must not change

int between(Rng& rng, int low, int high) {
    return low + static_cast<int>(rng.below(static_cast<std::uint32_t>(high - low + 1)));
}

// A window that contains all that the geometry reads, and sometimes more.
Box random_window(const ResizeGeometry& geometry, Rng& rng) {
    const Box reads = resize_reads(geometry);
    const int more = rng.chance(0.5f) ? 30 : 0;
    const int top = std::max(reads.top - between(rng, 0, more), 0);
    const int left = std::max(reads.left - between(rng, 0, more), 0);
    const int bottom = std::min(reads.top + reads.height + between(rng, 0, more), geometry.source.height);
    const int right = std::min(reads.left + reads.width + between(rng, 0, more), geometry.source.width);
    return {top, left, bottom - top, right - left};
}

ResizeGeometry random_geometry(Rng& rng, int most) {
    ResizeGeometry geometry;
    geometry.source = {between(rng, 1, most), between(rng, 1, most)};
    geometry.full = {between(rng, 1, most), between(rng, 1, most)};
    if (rng.chance(0.2f)) {
        geometry.full.height = geometry.source.height;
    }
    if (rng.chance(0.2f)) {
        geometry.full.width = geometry.source.width;
    }
    Box& part = geometry.part = {0, 0, geometry.full.height, geometry.full.width};
    if (rng.chance(0.5f)) {
        part.height = between(rng, 1, geometry.full.height);
        part.width = between(rng, 1, geometry.full.width);
        part.top = between(rng, 0, geometry.full.height - part.height);
        part.left = between(rng, 0, geometry.full.width - part.width);
    }
    geometry.flip = rng.chance(0.5f);
    geometry.interpolation = static_cast<Interpolation>(rng.below(4));
    return geometry;
}

std::string describe(const ResizeGeometry& geometry, int channels, const PixelTarget& target) {
    const auto& [source, full, part, flip, interpolation] = geometry;
    return fmt::format("{}x{}x{} to {}x{}, part {}x{} at {},{}{}, interpolation {}, {} {}{}", source.height,
                       source.width, channels, full.height, full.width, part.height, part.width, part.top, part.left,
                       flip ? " flipped" : "", static_cast<int>(interpolation), dtype_name(target.dtype),
                       target.layout == Layout::chw ? "chw" : "hwc", target.streamed ? " streamed" : "");
}

class ResizeNormalize : public ::testing::TestWithParam<OpKernels> {
  protected:
    // Compares both on noise. Describes the first difference; empty if there is none.
    std::string difference(const ResizeGeometry& geometry, int channels, const Box& window, DType dtype, Layout layout,
                           bool streamed) {
        const Image canvas = noise(window.height, window.width, channels, seed_++);
        const std::size_t bytes =
            static_cast<std::size_t>(geometry.part.height * geometry.part.width * channels) * item_size(dtype);
        Buffer expected(bytes + 2 * kGuard);
        Buffer got(bytes + 2 * kGuard);
        for (Buffer* buffer : {&expected, &got}) {
            std::fill_n(buffer->data(), buffer->size(), std::byte{0xA5});
        }
        PixelTarget target{expected.data() + kGuard, dtype, layout, streamed};
        testing::resize_normalize_reference(canvas.view(), window, geometry, factors_, target);
        target.data = got.data() + kGuard;
        resize_normalize_with(GetParam(), canvas.view(), window, geometry, factors_, target, scratch_);
        const auto [a, b] = std::mismatch(expected.data(), expected.data() + expected.size(), got.data());
        return a == expected.data() + expected.size()
                   ? ""
                   : fmt::format("byte {} of {}: {}", a - expected.data() - static_cast<std::ptrdiff_t>(kGuard), bytes,
                                 describe(geometry, channels, target));
    }

    const NormalizeFactors factors_ =
        normalize_factors({{0.485f, 0.456f, 0.406f, 0.5f}, {0.229f, 0.224f, 0.225f, 0.1f}});
    ResizeScratch scratch_;
    std::uint64_t seed_ = 1;
};

TEST_P(ResizeNormalize, GivesTheBitsOfItsOpsOneAfterTheOther) {
    Rng rng({.seed = 11});
    for (int trial = 0; trial < 400; ++trial) {
        const ResizeGeometry geometry = random_geometry(rng, trial % 3 == 0 ? 20 : 90);
        const DType dtype = kTypes[rng.below(4)];
        const Layout layout = kLayouts[rng.below(2)];
        const int channels = between(rng, 1, 4);
        ASSERT_EQ(difference(geometry, channels, random_window(geometry, rng), dtype, layout, rng.chance(0.3f)), "");
    }
}

// Rows wide enough for vectors, at scales below and above the reach of one permutation.
TEST_P(ResizeNormalize, GivesTheSameBitsAtEveryScale) {
    Rng rng({.seed = 12});
    for (int channels = 1; channels <= 4; ++channels) {
        for (int scale = 1; scale <= 20; ++scale) {
            const int width = between(rng, 33, 50);
            const ResizeGeometry geometry{.source = {between(rng, 3, 9), std::max(width * scale / 4, 1)},
                                          .full = {between(rng, 3, 9), width},
                                          .part = {0, 0, 3, width},
                                          .flip = scale % 2 == 0,
                                          .interpolation = static_cast<Interpolation>(scale / 2 % 4)};
            const Box window = resize_reads(geometry);
            for (const DType dtype : kTypes) {
                ASSERT_EQ(difference(geometry, channels, window, dtype, kLayouts[scale / 2 % 2], false), "");
            }
        }
    }
}

TEST_P(ResizeNormalize, TallAndThinAndTheUsual) {
    for (const ResizeGeometry& geometry : {ResizeGeometry{{700, 30}, {3, 40}, {0, 0, 3, 40}, true},
                                           ResizeGeometry{{2, 30}, {200, 31}, {7, 3, 150, 20}, false},
                                           ResizeGeometry{{97, 131}, {80, 96}, {0, 0, 80, 96}, true},
                                           ResizeGeometry{{60, 64}, {60, 64}, {0, 0, 60, 64}, true},
                                           ResizeGeometry{{64, 64}, {64, 64}, {0, 0, 64, 64}, false}}) {
        for (const Layout layout : kLayouts) {
            for (const bool streamed : {false, true}) {
                EXPECT_EQ(difference(geometry, 3, resize_reads(geometry), DType::float32, layout, streamed), "");
            }
        }
    }
}

TEST_P(ResizeNormalize, ConvertsEveryKindOfFloatTo16Bits) {
    std::vector<float> values;
    for (std::uint32_t high = 0; high < 0x10000u; ++high) {
        for (const std::uint32_t low : {0u, 1u, 0x7FFFu, 0x8000u, 0x8001u, 0x1000u, 0x0FFFu, 0xFFFFu}) {
            values.push_back(std::bit_cast<float>(high << 16 | low));
        }
    }
    values.resize(values.size() - 3);  // a tail
    std::vector<std::uint16_t> out(values.size() + 1, 77);
    for (const DType dtype : {DType::bfloat16, DType::float16}) {
        GetParam().to_16bit(values.data(), values.size(), dtype, out.data());
        for (std::size_t i = 0; i < values.size(); ++i) {
            ASSERT_EQ(out[i], dtype == DType::bfloat16 ? to_bfloat16(values[i]) : to_float16(values[i])) << values[i];
        }
        EXPECT_EQ(out.back(), 77);
    }
}

INSTANTIATE_TEST_SUITE_P(Sets, ResizeNormalize, ::testing::ValuesIn(op_kernels().begin(), op_kernels().end()),
                         [](const auto& set) { return std::string(set.param.name); });

// Checks every float16 value and the values around the middle between two of them.
TEST(Float16, RoundsToTheNearestHalfToEven) {
    const auto value_of = [](std::uint32_t half) {
        const int exponent = static_cast<int>(half >> 10 & 31u);
        const auto digits = static_cast<float>(half & 1023u);
        return exponent == 0 ? std::ldexp(digits, -24) : std::ldexp(1024.0f + digits, exponent - 25);
    };
    for (std::uint16_t half = 0; half < 0x7BFF; ++half) {
        const float low = value_of(half);
        const float high = value_of(half + 1u);
        const float middle = (low + high) / 2;  // exact: a float16 has 11 significant bits
        ASSERT_EQ(to_float16(low), half);
        ASSERT_EQ(to_float16(-low), half | 0x8000);
        ASSERT_EQ(to_float16(middle), half + half % 2) << low;
        ASSERT_EQ(to_float16(std::nextafter(middle, low)), half);
        ASSERT_EQ(to_float16(std::nextafter(middle, high)), half + 1);
    }
    EXPECT_EQ(to_float16(65519.996f), 0x7BFF);
    EXPECT_EQ(to_float16(65520.0f), 0x7C00);
    EXPECT_EQ(to_bfloat16(1.0f), 0x3F80);
    EXPECT_EQ(to_bfloat16(std::bit_cast<float>(0x3F808000u)), 0x3F80) << "halfway goes to the even one";
    EXPECT_EQ(to_bfloat16(std::bit_cast<float>(0x3F818000u)), 0x3F82);
    EXPECT_EQ(to_bfloat16(std::bit_cast<float>(0x3F808001u)), 0x3F81);
}

// resize_reads must be the exact box of the taps: no less, and a smaller window is refused.
TEST(ResizeReads, CoversExactlyWhatIsRead) {
    Rng rng({.seed = 13});
    ResizeScratch scratch;
    for (int trial = 0; trial < 300; ++trial) {
        const ResizeGeometry geometry = random_geometry(rng, 40);
        const Box reads = resize_reads(geometry);
        ResizeAxis rows;
        ResizeAxis columns;
        const auto& [source, full, part, flip, interpolation] = geometry;
        rows.build(source.height, full.height, part.top, part.height, interpolation);
        columns.build(source.width, full.width, part.left, part.width, interpolation);
        EXPECT_EQ(reads, (Box{rows.taps.front().first, columns.taps.front().first, rows.inputs(), columns.inputs()}));
        // One row or column less is refused.
        if (reads.height > 1 && reads.width > 1) {
            std::vector<std::byte> out(static_cast<std::size_t>(geometry.part.height * geometry.part.width) * 12);
            const PixelTarget target{out.data()};
            for (const Box& less : {Box{reads.top + 1, reads.left, reads.height - 1, reads.width},
                                    Box{reads.top, reads.left, reads.height, reads.width - 1}}) {
                const Image image(less.height, less.width, 3);
                EXPECT_THROW(resize_normalize(image.view(), less, geometry, {}, target, scratch), InvalidArgument);
            }
        }
    }
}

TEST(ResizeNormalizeArguments, AreChecked) {
    const Image image = noise(10, 10, 3);
    std::vector<std::byte> out(4000);
    ResizeScratch scratch;
    const ResizeGeometry good{{10, 10}, {5, 5}, {0, 0, 5, 5}};
    const auto run = [&](const ResizeGeometry& geometry, const Box& window, DType dtype, const Image& from) {
        resize_normalize(from.view(), window, geometry, {}, {out.data(), dtype}, scratch);
    };
    EXPECT_NO_THROW(run(good, {0, 0, 10, 10}, DType::float32, image));
    EXPECT_THROW(run(good, {0, 0, 10, 10}, DType::int64, image), InvalidArgument);
    EXPECT_THROW(run(good, {0, 0, 10, 9}, DType::float32, image), InvalidArgument);
    EXPECT_THROW(run(good, {0, 0, 10, 10}, DType::float32, noise(10, 10, 5)), InvalidArgument);
    EXPECT_THROW(run({{10, 10}, {5, 5}, {1, 0, 5, 5}}, {0, 0, 10, 10}, DType::float32, image), InvalidArgument);
    EXPECT_THROW(run({{9, 10}, {5, 5}, {0, 0, 5, 5}}, {0, 0, 10, 10}, DType::float32, image), InvalidArgument);
    EXPECT_THROW(run({{0, 0}, {5, 5}, {0, 0, 5, 5}}, {0, 0, 10, 10}, DType::float32, image), InvalidArgument);
}

}  // namespace
}  // namespace stoker
