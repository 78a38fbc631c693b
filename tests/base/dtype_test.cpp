// Every element type has PyTorch's name and the size of its C++ type.
#include "stoker/base/dtype.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

namespace stoker {
namespace {

struct Row {
    DType dtype;
    std::string name;
    std::size_t size;
};

const std::vector<Row> kRows = {
    {DType::uint8, "uint8", 1},     {DType::int32, "int32", 4},       {DType::int64, "int64", 8},
    {DType::float16, "float16", 2}, {DType::bfloat16, "bfloat16", 2}, {DType::float32, "float32", 4},
    {DType::float64, "float64", 8}, {DType::uint16, "uint16", 2},     {DType::int16, "int16", 2}};

TEST(DType, NamesAndSizesArePyTorchs) {
    std::set<std::string> names;
    for (const Row& row : kRows) {
        EXPECT_EQ(dtype_name(row.dtype), row.name);
        EXPECT_EQ(item_size(row.dtype), row.size) << row.name;
        names.insert(row.name);
    }
    EXPECT_EQ(names.size(), kRows.size());
    EXPECT_EQ(static_cast<std::size_t>(DType::float64) + 1, kRows.size()) << "a new type needs a row here";
}

template <typename T>
constexpr bool kMatches = item_size(dtype_of<T>::value) == sizeof(T);

TEST(DType, OfACppTypeHasItsSize) {
    static_assert(kMatches<std::uint8_t> && kMatches<std::int32_t> && kMatches<std::int64_t> && kMatches<float> &&
                  kMatches<double>);
    EXPECT_EQ(dtype_of<float>::value, DType::float32);
    EXPECT_EQ(dtype_of<std::int64_t>::value, DType::int64);
}

}  // namespace
}  // namespace stoker
