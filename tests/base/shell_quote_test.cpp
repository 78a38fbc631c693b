#include "stoker/base/shell_quote.h"

#include <gtest/gtest.h>

namespace stoker {
namespace {

TEST(ShellQuote, QuotesWhatAShellWouldReadOtherwise) {
    EXPECT_EQ(quoted_for_shell("data.train=/a/b-c_1.stk"), "data.train=/a/b-c_1.stk");
    EXPECT_EQ(quoted_for_shell("my photos; rm $HOME"), "'my photos; rm $HOME'");
    EXPECT_EQ(quoted_for_shell("it's"), "'it'\\''s'");
    EXPECT_EQ(quoted_for_shell(""), "''");
}

}  // namespace
}  // namespace stoker
