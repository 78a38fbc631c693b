// Sizes, elements and pixels of arrays, against plain loops over indices.
#include "stoker/formats/array.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "formats/arrays/npy_support.h"
#include "stoker/base/error.h"

namespace stoker {
namespace {

using ::testing::HasSubstr;
using testing::little_endian;

constexpr ArrayType kUint8{};

template <typename Call>
std::string error_of(Call call) {
    try {
        call();
    } catch (const DataError& error) {
        return error.what();
    }
    return "nothing";
}

TEST(Array, NamesOfTypes) {
    EXPECT_EQ(array_type_name({ArrayKind::boolean, 1}), "bool");
    EXPECT_EQ(array_type_name({ArrayKind::unsigned_integer, 1}), "uint8");
    EXPECT_EQ(array_type_name({ArrayKind::signed_integer, 2, true}), "int16 (big-endian)");
    EXPECT_EQ(array_type_name({ArrayKind::unsigned_integer, 1, true}), "uint8");
    EXPECT_EQ(array_type_name({ArrayKind::floating, 8}), "float64");
    EXPECT_TRUE(kUint8.is_uint8());
    EXPECT_FALSE((ArrayType{ArrayKind::boolean, 1}.is_uint8()));
    EXPECT_FALSE((ArrayType{ArrayKind::unsigned_integer, 2}.is_uint8()));
}

TEST(Array, BytesOfShapes) {
    const ArrayType wide{ArrayKind::floating, 8};
    constexpr std::int64_t kLarge = std::int64_t{1} << 40;
    EXPECT_EQ(checked_array_bytes(wide, {}), 8U);
    EXPECT_EQ(checked_array_bytes(wide, {3, 5}), 120U);
    EXPECT_EQ(checked_array_bytes(wide, {kLarge, 0}), 0U);
    EXPECT_EQ(checked_array_bytes(kUint8, {std::numeric_limits<std::int64_t>::max()}),
              static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()));
    for (const Shape& shape : {Shape{-1}, Shape{0, -1}, Shape{kLarge, kLarge}, Shape{kLarge, kLarge, 0},
                               Shape{std::int64_t{1} << 60}, Shape{std::numeric_limits<std::int64_t>::min()}}) {
        EXPECT_THAT(error_of([&] { checked_array_bytes(wide, shape); }), HasSubstr("below 2^63 bytes"));
    }
}

// Reads the last of three elements, so that a wrong offset shows.
std::int64_t integer(ArrayKind kind, int size, bool big_endian, std::uint64_t value) {
    std::string one = little_endian(value, size);
    if (big_endian) {
        one.assign(one.rbegin(), one.rend());
    }
    const std::string elements = std::string(2 * static_cast<std::size_t>(size), '\x55') + one;
    ArrayView array;
    array.type = {kind, size, big_endian};
    array.shape = {3};
    array.bytes = as_bytes(elements);
    return integer_at(array, 2);
}

TEST(Array, IntegersOfEveryWidthAndOrder) {
    for (const int size : {1, 2, 4, 8}) {
        for (const bool big : {false, true}) {
            const int bits = 8 * size;
            const std::uint64_t top = std::uint64_t{1} << (bits - 1);
            EXPECT_EQ(integer(ArrayKind::signed_integer, size, big, top), -static_cast<std::int64_t>(top - 1) - 1);
            EXPECT_EQ(integer(ArrayKind::signed_integer, size, big, top - 1), static_cast<std::int64_t>(top - 1));
            EXPECT_EQ(integer(ArrayKind::signed_integer, size, big, ~std::uint64_t{0}), -1);
            EXPECT_EQ(integer(ArrayKind::unsigned_integer, size, big, top), static_cast<std::int64_t>(top));
            EXPECT_EQ(integer(ArrayKind::unsigned_integer, size, big, 0x12), 0x12);
        }
    }
    EXPECT_EQ(integer(ArrayKind::boolean, 1, false, 1), 1);
    EXPECT_THAT(error_of([] { integer(ArrayKind::floating, 4, false, 0); }), HasSubstr("integers, got float32"));
}

TEST(Array, ShapesOfImages) {
    struct Case {
        Shape shape;
        ImageArray image;
    };
    const Case cases[] = {
        {{5, 7}, {5, 7, 1, false}},         {{5, 7, 3}, {5, 7, 3, false}},        {{3, 5, 7}, {5, 7, 3, true}},
        {{1, 5, 7}, {5, 7, 1, true}},       {{5, 7, 1}, {5, 7, 1, false}},        {{3, 5, 3}, {3, 5, 3, false}},
        {{4, 4, 4}, {4, 4, 4, false}},      {{1, 1}, {1, 1, 1, false}},           {{4, 5, 6}, {5, 6, 4, true}},
        {{65535, 1}, {65535, 1, 1, false}}, {{5, 7, 5}, {7, 5, 5, true}},         {{64, 70, 13}, {64, 70, 13, false}},
        {{13, 64, 64}, {64, 64, 13, true}}, {{100, 64, 64}, {100, 64, 64, false}}};
    for (const auto& [shape, image] : cases) {
        const ImageArray found = image_array(kUint8, shape);
        EXPECT_EQ(found.height, image.height);
        EXPECT_EQ(found.width, image.width);
        EXPECT_EQ(found.channels, image.channels);
        EXPECT_EQ(found.planes, image.planes);
    }
    for (const Shape& shape : {Shape{}, Shape{5}, Shape{65, 7, 65}, Shape{0, 7, 0}, Shape{2, 2, 5, 7, 3}}) {
        EXPECT_THAT(error_of([&] { image_array(kUint8, shape); }), HasSubstr("C being 1 to 64, got uint8"));
    }
    for (const Shape& shape : {Shape{0, 7}, Shape{5, 0, 3}, Shape{65536, 1}, Shape{3, 1, 65536}}) {
        EXPECT_THAT(error_of([&] { image_array(kUint8, shape); }), HasSubstr("sides of 1 to 65535"));
    }
    EXPECT_EQ(image_array({ArrayKind::floating, 4}, {5, 7}).dtype, DType::float32);
    EXPECT_EQ(image_array({ArrayKind::unsigned_integer, 2, true}, {5, 7}).dtype, DType::uint16);
    EXPECT_THAT(error_of([] {
                    image_array({ArrayKind::signed_integer, 8}, {5, 7});
                }),
                HasSubstr("got int64 of (5, 7)"));
    EXPECT_THAT(error_of([] {
                    image_array({ArrayKind::unsigned_integer, 4}, {5, 7});
                }),
                HasSubstr("got uint32 of (5, 7)"));
}

// Every layout and order: element (y, x, c) against a plain loop over indices.
TEST(Array, PixelsInEveryOrder) {
    for (const Shape& shape : {Shape{5, 7}, Shape{5, 7, 1}, Shape{5, 7, 3}, Shape{3, 5, 7}, Shape{1, 5, 7}, Shape{2, 2},
                               Shape{4, 6, 5}, Shape{1, 1}}) {
        for (const bool fortran : {false, true}) {
            const ImageArray image = image_array(kUint8, shape);
            const auto count = static_cast<std::size_t>(element_count(shape));
            std::vector<std::byte> array(count);  // element number i of C order has the value i
            std::vector<std::byte> pixels(count);
            for (std::size_t i = 0; i < count; ++i) {
                std::vector<std::size_t> at(shape.size());
                for (std::size_t side = shape.size(), rest = i; side-- > 0;) {
                    at[side] = rest % static_cast<std::size_t>(shape[side]);
                    rest /= static_cast<std::size_t>(shape[side]);
                }
                std::size_t place = i;
                if (fortran) {
                    place = 0;
                    for (std::size_t side = shape.size(); side-- > 0;) {
                        place = place * static_cast<std::size_t>(shape[side]) + at[side];
                    }
                }
                array[place] = static_cast<std::byte>(i);
                const std::size_t y = at[image.planes ? 1 : 0];
                const std::size_t x = at[image.planes ? 2 : 1];
                const std::size_t c = shape.size() == 2 ? 0 : at[image.planes ? 0 : 2];
                pixels[(y * static_cast<std::size_t>(image.width) + x) * static_cast<std::size_t>(image.channels) + c] =
                    static_cast<std::byte>(i);
            }
            for (const bool in_storage : {false, true}) {
                Sample sample;
                sample.encoded = true;
                std::span<const std::byte> bytes = array;
                if (in_storage) {
                    sample.storage.resize(count);
                    std::ranges::copy(array, sample.storage.data());
                    bytes = sample.storage.bytes();
                }
                set_pixels(image, fortran, bytes, sample);
                EXPECT_TRUE(std::ranges::equal(sample.bytes, pixels)) << ::testing::PrintToString(shape) << fortran;
                EXPECT_FALSE(sample.encoded);
                EXPECT_EQ(sample.height, image.height);
                EXPECT_EQ(sample.width, image.width);
                EXPECT_EQ(sample.channels, image.channels);
                if (!fortran && (!image.planes || image.channels == 1)) {
                    EXPECT_EQ(sample.bytes.data(), bytes.data());  // no copy
                }
            }
        }
    }
}

}  // namespace
}  // namespace stoker
