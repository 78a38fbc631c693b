// Only ASCII letters change, whatever the locale.
#include "stoker/base/ascii.h"

#include <gtest/gtest.h>

namespace stoker {
namespace {

TEST(Ascii, LowerCaseChangesLettersOnly) {
    EXPECT_EQ(lower_case("Content-LENGTH: 12 @[`{ \xc4\x80"), "content-length: 12 @[`{ \xc4\x80");
    EXPECT_EQ(lower_case("AZaz"), "azaz");
    EXPECT_EQ(lower_case(""), "");
}

}  // namespace
}  // namespace stoker
