// Numbers and arrays as values of fields: types, shapes and the refusals of what does not fit.
#include "stoker/formats/field_values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "stoker/base/error.h"

namespace stoker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

FieldNumbers list(std::initializer_list<double> numbers) {
    FieldNumbers found;
    for (const double number : numbers) {
        found.add(number);
    }
    found.shape = {static_cast<std::int64_t>(numbers.size())};
    return found;
}

TEST(FieldValues, NumbersOfText) {
    EXPECT_THAT(parse_field_number(" 17\n").integers, ElementsAre(17));
    EXPECT_TRUE(parse_field_number("-1").whole);
    const FieldNumbers real = parse_field_number("\t-2.5e3 ");
    EXPECT_FALSE(real.whole);
    EXPECT_THAT(real.reals, ElementsAre(-2500));
    EXPECT_EQ(parse_field_number("99999999999999999999").reals.front(), 1e20);
    for (const char* other : {"", " ", "one", "1 2", "0x10", "1,5"}) {
        EXPECT_THROW(parse_field_number(other), DataError) << other;
    }
    EXPECT_THROW(parse_field_number(std::string(1000, '1')), DataError);
}

TEST(FieldValues, ShapesThatDiffer) {
    Shape shape = {3, 2};
    merge_shape(shape, {3, 2}, "x");
    EXPECT_EQ(shape, (Shape{3, 2}));
    merge_shape(shape, {5, 2}, "x");
    EXPECT_EQ(shape, (Shape{-1, 2}));
    EXPECT_THROW(merge_shape(shape, {5, 3}, "x"), Unsupported);
    EXPECT_THROW(merge_shape(shape, {5}, "x"), Unsupported);
}

TEST(FieldValues, ANumberFitsItsField) {
    FieldValue value;
    const Field label = field_of_numbers({.name = "l", .kind = FieldKind::label}, {3}, false, "x");
    EXPECT_EQ(label.dtype, DType::int64);
    EXPECT_THAT(
        [&] {
            set_numbers(label, list({1, 0, 0.5}), value);
        },
        ThrowsMessage<DataError>(HasSubstr("int64 of (3) for l, got floats of (3)")));
    FieldNumbers whole{.shape = {3}};
    for (const std::int64_t number : {4, 5, 6}) {
        whole.add(number);
    }
    set_numbers(label, whole, value);
    EXPECT_EQ(value.bytes.size(), 24U);
    whole.shape = {2};
    EXPECT_THROW(set_numbers(label, whole, value), DataError);
    const Field boxes = field_of_numbers({.name = "b", .kind = FieldKind::boxes}, {2, 4}, false, "x");
    EXPECT_EQ(boxes.shape, (Shape{-1, 4}));
    set_numbers(boxes, FieldNumbers{.shape = {0}}, value);  // an empty list has only one side
    EXPECT_TRUE(value.bytes.empty());
    EXPECT_THROW(field_of_numbers({.name = "b", .kind = FieldKind::boxes}, {4}, false, "x"), Unsupported);
    EXPECT_THROW(field_of_numbers({.name = "m", .kind = FieldKind::mask}, {}, false, "x"), Unsupported);
    EXPECT_THROW(set_numbers({.name = "f", .dtype = DType::int32}, parse_field_number("1"), value), DataError);
}

TEST(FieldValues, AnArrayFitsItsField) {
    const std::vector<float> numbers = {1, 2, 3, 4, 5, 6};
    ArrayView array;
    array.type = {.kind = ArrayKind::floating, .item_size = 4};
    array.shape = {3, 2};
    array.bytes = std::as_bytes(std::span(numbers));
    const Field fixed = field_of_array({.name = "p"}, array, false, "x");
    FieldValue value;
    set_array(fixed, array, value);
    EXPECT_EQ(value.bytes.data(), array.bytes.data());
    EXPECT_EQ(field_of_array({.name = "p"}, array, true, "x").shape, (Shape{-1, 2}));
    ArrayView other = array;
    other.shape = {2, 3};
    EXPECT_THAT([&] { set_array(fixed, other, value); },
                ThrowsMessage<DataError>(HasSubstr("float32 of (3, 2) for p, got float32 of (2, 3)")));
    other = array;
    other.fortran = true;
    EXPECT_THROW(set_array(fixed, other, value), DataError);
    EXPECT_THROW(field_of_array({.name = "p"}, other, false, "x"), Unsupported);
    other = array;
    other.type.big_endian = true;
    EXPECT_THROW(field_of_array({.name = "p"}, other, false, "x"), Unsupported);
    EXPECT_THROW(field_of_array({.name = "p", .kind = FieldKind::mask}, array, false, "x"), Unsupported);
}

TEST(FieldValues, SamplesToProbe) {
    EXPECT_THAT(probed_samples(3), ElementsAre(0, 1, 2));
    const auto many = probed_samples(1000);
    EXPECT_EQ(many.size(), 64U);
    EXPECT_EQ(many.front(), 0);
    EXPECT_LT(many.back(), 1000);
}

TEST(FieldValues, Guesses) {
    EXPECT_EQ(guessed_image_kind("seg.png"), FieldKind::mask);
    EXPECT_EQ(guessed_image_kind("left.png"), FieldKind::image);
    EXPECT_EQ(guessed_kind("mask", DType::uint8, {4, 4}), FieldKind::mask);
    EXPECT_EQ(guessed_kind("right", DType::uint8, {4, 4, 3}), FieldKind::image);
    EXPECT_EQ(guessed_kind("boxes", DType::float32, {-1, 4}), FieldKind::boxes);
    EXPECT_EQ(guessed_kind("tokens", DType::int32, {-1}), FieldKind::tokens);
    EXPECT_EQ(guessed_kind("labels2", DType::int64, {20}), FieldKind::label);
    EXPECT_EQ(guessed_kind("angle", DType::float32, {}), FieldKind::value);
}

}  // namespace
}  // namespace stoker
