// Foreign text: characters that a terminal acts on or reads in another order are escaped, letters of all scripts stay.
#include "stoker/base/printable.h"

#include <gtest/gtest.h>

#include <string>

#include "stoker/base/utf8.h"

namespace stoker {
namespace {

TEST(Printable, EscapesControlCharactersAndInvalidBytes) {
    EXPECT_EQ(printable("a\x1b[31m\r\n\tb\x7f"), "a\\x1b[31m\\x0d\\x0a\\x09b\\u007f");
    EXPECT_EQ(printable(std::string("\0", 1)), "\\x00");
    EXPECT_EQ(printable("\xc2\x9b"), "\\u009b");  // CSI, as of an 8-bit terminal
    EXPECT_EQ(printable("\xff"
                        "a\xc3"),
              "\\xffa\\xc3");
    EXPECT_EQ(printable("a\xe2\x80\xae"
                        "gpj\xe2\x81\xa6\xe2\x80\xa8"),
              "a\\u202egpj\\u2066\\u2028");
}

TEST(Printable, LeavesTextAsItIs) {
    for (const char* text : {"", "a b.jpg", "grün/猫.jpg", "שלום", "👩‍🚀", R"(C:\x1b\u202e)", "\"'<>&"}) {
        EXPECT_EQ(printable(text), text);
        EXPECT_EQ(printable_lines(text), text);
    }
}

TEST(Printable, KeepsOnlyLineBreaksInLines) {
    EXPECT_EQ(printable_lines("a\nb\r\n\x1b"), "a\nb\\x0d\n\\x1b");
}

TEST(Utf8Text, EscapesOnlyBytesThatAreNotUtf8) {
    EXPECT_EQ(utf8_text("a\nb猫"), "a\nb猫");
    EXPECT_EQ(utf8_text("\xc3\xa8\xb0"), "\xc3\xa8\\xb0");
}

TEST(Printable, HasNoControlCharacterOfAnyCodePoint) {
    for (std::uint32_t code = 0; code < 0x11000; ++code) {
        if (code >= 0xd800 && code < 0xe000) {
            continue;
        }
        std::string text;
        append_utf8(text, code);
        const std::string safe = printable(text);
        ASSERT_EQ(safe == text, !is_control(code)) << code;
        ASSERT_EQ(printable(safe), safe) << code;
    }
}

}  // namespace
}  // namespace stoker
