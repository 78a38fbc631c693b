// Patterns without `*`, and with it at the start, in the middle and at the end.
#include "stoker/models/name_pattern.h"

#include <gtest/gtest.h>

namespace stoker {
namespace {

TEST(NamePattern, WithoutStarMatchesTheExactName) {
    EXPECT_TRUE(matches("fc.weight", "fc.weight"));
    EXPECT_FALSE(matches("fc.weight", "fc"));
    EXPECT_FALSE(matches("fc", "fc.weight"));
    EXPECT_FALSE(matches("fc.weight", ""));
    EXPECT_TRUE(matches("", ""));
}

TEST(NamePattern, AStarMatchesAnyPart) {
    EXPECT_TRUE(matches("layer1.0.bn1.weight", "layer1.*"));
    EXPECT_FALSE(matches("layer10.0.bn1.weight", "layer1.*"));
    EXPECT_TRUE(matches("layer1.0.bn1.weight", "*.bn*.weight"));
    EXPECT_FALSE(matches("layer1.0.bn1.bias", "*.bn*.weight"));
    EXPECT_TRUE(matches("fc.weight", "*"));
    EXPECT_TRUE(matches("fc.weight", "fc*.weight")) << "a star also matches an empty part";
    EXPECT_TRUE(matches("aXbXc", "a*b*c"));
    EXPECT_FALSE(matches("aXbX", "a*b*c"));
}

}  // namespace
}  // namespace stoker
