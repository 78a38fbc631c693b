// Clips: which frames a window names, arrays of frames in every order of their elements, and the payload of an stk
// clip.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <tuple>
#include <vector>

#include "stoker/base/error.h"
#include "stoker/formats/array.h"
#include "stoker/formats/stk/stk_clip.h"
#include "stoker/formats/stk/stk_layout.h"

namespace stoker {
namespace {

using ::testing::ElementsAre;

TEST(FrameWindow, NamesFrames) {
    EXPECT_THAT((FrameWindow{}.of(3)), ElementsAre(0, 1, 2));
    EXPECT_THAT((FrameWindow{.count = 3, .stride = 2, .at = 0}.of(9)), ElementsAre(0, 2, 4));
    EXPECT_THAT((FrameWindow{.count = 3, .stride = 2, .at = 0.5}.of(9)), ElementsAre(2, 4, 6));
    EXPECT_THAT((FrameWindow{.count = 3, .stride = 2, .at = 1}.of(9)), ElementsAre(4, 6, 8));
    EXPECT_THAT((FrameWindow{.count = 4, .stride = 2, .at = 0.9}.of(4)), ElementsAre(0, 2, 3, 3));
    EXPECT_THAT((FrameWindow{.count = 2}.of(1)), ElementsAre(0, 0));
}

TEST(FrameWindow, BeginsAnywhereEquallyOften) {
    std::array<int, 5> counts{};
    for (int i = 0; i < 1000; ++i) {
        ++counts.at(static_cast<std::size_t>(FrameWindow{.count = 4, .at = i / 1000.0}.of(8).front()));
    }
    EXPECT_THAT(counts, ElementsAre(200, 200, 200, 200, 200));
}

TEST(ImageArray, ThreeSidesAreAnImageOrAClip) {
    EXPECT_EQ(image_array(DType::uint8, {20, 30, 3}).frames, 0);
    EXPECT_EQ(image_array(DType::uint8, {20, 30, 3}, true).frames, 20);
    EXPECT_THROW(image_array(DType::uint8, {100, 200, 300}), DataError);
    EXPECT_EQ(image_array(DType::uint8, {100, 200, 300}, true).frames, 100);
    EXPECT_EQ(image_array(DType::uint8, {7, 3, 30, 40}).frames, 7);
    EXPECT_TRUE(image_array(DType::uint8, {7, 3, 30, 40}).planes);
    EXPECT_THROW(image_array(DType::uint8, {1, 2, 3, 4, 5}), DataError);
    EXPECT_THROW(image_array(DType::uint8, {0, 20, 30, 3}), DataError);
    EXPECT_THROW(image_array(DType::uint8, {70'000, 2, 2, 3}), DataError);
}

// Element (t, y, x, c) of any layout is 1000 t + 100 y + 10 x + c.
class ClipArrays : public ::testing::TestWithParam<std::tuple<bool, bool, bool>> {};

TEST_P(ClipArrays, HaveTheirElements) {
    const auto [planes, fortran, big_endian] = GetParam();
    const ImageArray layout{.height = 4,
                            .width = 6,
                            .channels = 3,
                            .planes = planes,
                            .dtype = DType::uint16,
                            .big_endian = big_endian,
                            .frames = 5};
    std::array<std::int64_t, 4> sides = {5, 4, 6, 3};
    if (planes) {
        sides = {5, 3, 4, 6};
    }
    std::vector<std::uint16_t> stored(360);
    std::array<std::int64_t, 4> at{};
    for (at[0] = 0; at[0] < sides[0]; ++at[0]) {
        for (at[1] = 0; at[1] < sides[1]; ++at[1]) {
            for (at[2] = 0; at[2] < sides[2]; ++at[2]) {
                for (at[3] = 0; at[3] < sides[3]; ++at[3]) {
                    std::int64_t place = 0;
                    for (std::size_t i = 0; i < 4; ++i) {
                        const std::size_t side = fortran ? 3 - i : i;
                        place = place * sides[side] + at[side];
                    }
                    const auto [y, x, c] = planes ? std::array{at[2], at[3], at[1]} : std::array{at[1], at[2], at[3]};
                    const auto value = static_cast<std::uint16_t>(1000 * at[0] + 100 * y + 10 * x + c);
                    stored[static_cast<std::size_t>(place)] =
                        big_endian ? static_cast<std::uint16_t>(value << 8 | value >> 8) : value;
                }
            }
        }
    }
    FieldValue value;
    value.wanted = {.count = 2, .stride = 3, .at = 1};
    set_pixels(layout, fortran, std::as_bytes(std::span(stored)), value);
    ASSERT_EQ(value.frames.size(), 2u);
    for (int i = 0; i < 2; ++i) {
        const FieldValue& frame = value.frames[static_cast<std::size_t>(i)];
        ASSERT_EQ(frame.bytes.size(), 144u);
        const auto* pixels = reinterpret_cast<const std::uint16_t*>(frame.bytes.data());
        for (int y = 0; y < 4; ++y) {
            for (int x = 0; x < 6; ++x) {
                for (int c = 0; c < 3; ++c) {
                    const int place = frame.planes ? (c * 4 + y) * 6 + x : (y * 6 + x) * 3 + c;
                    ASSERT_EQ(pixels[place], 1000 * (1 + 3 * i) + 100 * y + 10 * x + c);
                }
            }
        }
    }
}

INSTANTIATE_TEST_SUITE_P(All, ClipArrays, ::testing::Combine(::testing::Bool(), ::testing::Bool(), ::testing::Bool()));

StkImage raw(std::span<const std::byte> pixels, int height, int width) {
    return {.bytes = pixels, .codec = StkCodec::raw, .height = height, .width = width, .channels = 1};
}

TEST(StkClip, GivesItsFramesBack) {
    std::array<std::byte, 60> pixels{};
    for (std::size_t i = 0; i < pixels.size(); ++i) {
        pixels[i] = static_cast<std::byte>(i);
    }
    const std::span<const std::byte> all(pixels);
    const std::vector<std::byte> payload = write_stk_clip(std::array{
        raw(all.first(20), 4, 5), StkImage{.bytes = all.subspan(20, 7), .codec = StkCodec::jpeg, .original_file = true},
        raw(all.subspan(30, 30), 5, 6)});
    EXPECT_EQ(stk_clip_frames(payload), 3);
    FieldValue value;
    value.wanted = {.count = 2, .stride = 2};
    set_stk_clip(payload, value);
    ASSERT_EQ(value.frames.size(), 2u);
    EXPECT_TRUE(std::ranges::equal(value.frames[0].bytes, all.first(20)));
    EXPECT_EQ(value.frames[1].width, 6);
    const StkImage encoded = stk_clip_frame(payload, 1);
    EXPECT_TRUE(encoded.original_file && std::ranges::equal(encoded.bytes, all.subspan(20, 7)));
}

TEST(StkClip, RefusesFramesOutsideOfThePayload) {
    const std::array<std::byte, 20> pixels{};
    const std::vector<std::byte> good = write_stk_clip(std::array{raw(pixels, 4, 5)});
    const auto entry = [](std::vector<std::byte> payload, auto change) {
        StkImageEntry changed;
        std::memcpy(&changed, payload.data() + 8, sizeof changed);
        change(changed);
        std::memcpy(payload.data() + 8, &changed, sizeof changed);
        return payload;
    };
    const auto refused = [](const std::vector<std::byte>& payload) {
        FieldValue value;
        EXPECT_THROW(set_stk_clip(payload, value), DataError);
    };
    FieldValue value;
    set_stk_clip(good, value);
    refused({});
    refused({good.begin(), good.begin() + 40});
    refused(entry(good, [](StkImageEntry& frame) { frame.place.offset = std::uint64_t{1} << 60; }));
    refused(entry(good, [](StkImageEntry& frame) { frame.place.size = ~std::uint64_t{0}; }));
    refused(entry(good, [](StkImageEntry& frame) { frame.height = 5; }));
    refused(entry(good, [](StkImageEntry& frame) { frame.height = 1U << 31; }));
    refused(entry(good, [](StkImageEntry& frame) { frame.codec = static_cast<std::uint16_t>(StkCodec::clip); }));
    std::vector<std::byte> many = good;
    many[2] = std::byte{1};  // 65,537 frames
    refused(many);
    EXPECT_THROW(write_stk_clip({}), DataError);
}

}  // namespace
}  // namespace stoker
