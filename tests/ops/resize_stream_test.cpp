// Rows that arrive one by one give the bits of resize_normalize, also if a decoder begins again.
#include "stoker/ops/resize_stream.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <string>

#include "ops/support.h"
#include "stoker/ops/kernels.h"

namespace stoker {
namespace {

using testing::noise;

class Stream : public ::testing::TestWithParam<OpKernels> {};

struct Case {
    ResizeGeometry geometry{};
    Box window{};
    PixelTarget target{};
    Image from;
};

Case make_case(std::uint64_t trial) {
    Rng rng({.seed = 31, .sample = trial});
    const auto below = [&](int end) { return static_cast<int>(rng.below(static_cast<std::uint32_t>(end))); };
    const ImageSize full{2 + below(30), 2 + below(60)};
    const ImageSize source{1 + full.height + below(full.height * 20), full.width * (3 + below(24)) + below(9)};
    Case made;
    made.geometry = {.source = source, .full = full, .part = {0, 0, full.height, full.width}, .flip = rng.chance(0.5F)};
    if (rng.chance(0.3F)) {
        made.geometry.part = {full.height / 3, full.width / 4, full.height - full.height / 3, full.width / 2};
    }
    const Box reads = resize_reads(made.geometry);  // and more, at some of the sides
    const int top = below(2) * below(reads.top + 1);
    const int left = below(2) * below(reads.left + 1);
    const int below_reads = source.height - reads.top - reads.height;
    const int right = source.width - reads.left - reads.width;
    made.window = {.top = reads.top - top,
                   .left = reads.left - left,
                   .height = top + reads.height + below(2) * below(below_reads + 1),
                   .width = left + reads.width + below(2) * below(right + 1)};
    constexpr std::array kTypes = {DType::float32, DType::uint8, DType::bfloat16, DType::float16};
    made.target = {.dtype = kTypes[rng.below(4)], .layout = rng.chance(0.2F) ? Layout::hwc : Layout::chw};
    made.from = noise(made.window.height, made.window.width, 3, trial);
    return made;
}

// Up to the given row.
void send(ResizeStream& stream, const Image& from, int rows) {
    for (int y = 0; y < rows; ++y) {
        std::memcpy(stream.row(y), from.view().row(y), from.view().row_bytes());
    }
}

TEST_P(Stream, GivesTheBitsOfResizeNormalize) {
    const NormalizeFactors factors = normalize_factors(kImageNetNormalize);
    ResizeScratch scratch;
    ResizeStream stream;
    int streamed = 0;
    for (std::uint64_t trial = 0; trial < 200; ++trial) {
        Case made = make_case(trial);
        const Box& part = made.geometry.part;
        const std::size_t bytes = static_cast<std::size_t>(part.height) * static_cast<std::size_t>(part.width) * 3 *
                                  item_size(made.target.dtype);
        std::vector<std::byte> expected(bytes);
        std::vector<std::byte> got(bytes, std::byte{0x5a});
        made.target.data = expected.data();
        resize_normalize_with(kPlainKernels, made.from.view(), made.window, made.geometry, factors, made.target,
                              scratch);
        made.target.data = got.data();
        const auto begin = [&] {
            return stream.begin_with(GetParam(), made.window, 3, made.geometry, factors, made.target, scratch);
        };
        if (!begin()) {
            continue;
        }
        ++streamed;
        if (trial % 7 == 0) {
            send(stream, made.from, made.window.height / 2);
            const Case other = make_case(trial + 1000);  // whose end may never come
            stream.begin_with(GetParam(), other.window, 3, other.geometry, factors, made.target, scratch);
            ASSERT_TRUE(begin());
        }
        send(stream, made.from, made.window.height);
        stream.finish();
        ASSERT_EQ(got, expected) << trial;
    }
    EXPECT_EQ(streamed > 80, GetParam().shrink != nullptr) << streamed;
}

TEST(ResizeStream, LeavesOtherGeometriesAlone) {
    ResizeScratch scratch;
    ResizeStream stream;
    std::vector<std::byte> out(100 * 100 * 3);
    const PixelTarget target{.data = out.data(), .dtype = DType::uint8};
    const auto begins = [&](ImageSize source, int channels) {
        return stream.begin({0, 0, source.height, source.width}, channels,
                            {.source = source, .full = {100, 100}, .part = {0, 0, 100, 100}}, {}, target, scratch);
    };
    EXPECT_FALSE(begins({150, 150}, 3));
    EXPECT_FALSE(begins({2000, 2000}, 1));
    EXPECT_EQ(begins({2000, 2000}, 3), best_kernels().shrink != nullptr);
}

INSTANTIATE_TEST_SUITE_P(Sets, Stream, ::testing::ValuesIn(op_kernels().begin(), op_kernels().end()),
                         [](const auto& set) { return std::string(set.param.name); });

}  // namespace
}  // namespace stoker
