// Counts with commas and nouns.
#include "stoker/base/pluralize.h"

#include <gtest/gtest.h>

namespace stoker {
namespace {

TEST(Pluralize, HasCommasAndTheNounsNumber) {
    EXPECT_EQ(pluralize(0, "image"), "0 images");
    EXPECT_EQ(pluralize(1, "image"), "1 image");
    EXPECT_EQ(pluralize(999, "image"), "999 images");
    EXPECT_EQ(pluralize(12'345, "bad sample"), "12,345 bad samples");
    EXPECT_EQ(pluralize(2, "batch"), "2 batches");
    EXPECT_EQ(pluralize(2, "epoch"), "2 epochs");
    EXPECT_EQ(pluralize(1, "class"), "1 class");
    EXPECT_EQ(pluralize(2, "class"), "2 classes");
}

TEST(WithCommas, SeparatesGroupsOfThreeDigits) {
    EXPECT_EQ(with_commas(0), "0");
    EXPECT_EQ(with_commas(1'234'567.8), "1,234,568");
    EXPECT_EQ(with_commas(-123), "-123");
    EXPECT_EQ(with_commas(-1234), "-1,234");
}

}  // namespace
}  // namespace stoker
