// Sizes of a view, and typed access that rejects the wrong type.
#include "stoker/base/tensor_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

namespace stoker {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(TensorView, CountsElementsAndBytes) {
    EXPECT_EQ(element_count({}), 1);  // a scalar
    EXPECT_EQ(element_count({0}), 0);
    EXPECT_EQ(element_count({3, 0, 5}), 0);
    EXPECT_EQ(element_count({2, 3, 4}), 24);
    EXPECT_EQ(element_count({1 << 20, 1 << 20}), std::int64_t{1} << 40);

    EXPECT_EQ((TensorView{nullptr, DType::int64, {2, 3}}).bytes(), 48u);
    EXPECT_EQ((TensorView{nullptr, DType::bfloat16, {5}}).bytes(), 10u);
    EXPECT_EQ((TensorView{nullptr, DType::float32, {}}).bytes(), 4u);
    EXPECT_EQ((TensorView{nullptr, DType::float32, {0, 7}}).bytes(), 0u);
}

TEST(TensorView, WritesThroughToTheBytesItViews) {
    std::array<float, 6> numbers{0, 1, 2, 3, 4, 5};
    const TensorView view{reinterpret_cast<std::byte*>(numbers.data()), DType::float32, {2, 3}};
    const auto floats = view.as<float>();
    ASSERT_EQ(floats.size(), 6u);
    EXPECT_EQ(floats[4], 4.0f);
    floats[4] = 40.0f;
    EXPECT_EQ(numbers[4], 40.0f);
}

TEST(TensorView, RefusesAnotherTypeOfTheSameSize) {
    const TensorView view{nullptr, DType::int32, {0}};
    EXPECT_NO_THROW(view.as<std::int32_t>());
    EXPECT_THAT([&] { view.as<float>(); },
                ThrowsMessage<InvalidArgument>(HasSubstr("[TensorView::as] expected float32, got int32")));
}

}  // namespace
}  // namespace stoker
