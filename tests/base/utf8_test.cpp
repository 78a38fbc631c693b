// All code points, and all sequences of three bytes in steps, against the rules of UTF-8.
#include "stoker/base/utf8.h"

#include <gtest/gtest.h>

#include <string>

namespace stoker {
namespace {

using namespace std::string_literals;

TEST(Utf8, EveryCodePointIsOneSequence) {
    for (std::uint32_t code = 0; code <= 0x10FFFF; ++code) {
        std::string text;
        append_utf8(text, code);
        const bool surrogate = code >= 0xD800 && code < 0xE000;
        const std::size_t length = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
        ASSERT_EQ(text.size(), length) << code;
        ASSERT_EQ(utf8_sequence(text), surrogate ? 0 : length) << code;
        ASSERT_EQ(utf8_sequence(text + "x"), surrogate ? 0 : length) << code;
        ASSERT_EQ(utf8_sequence(std::string_view(text).substr(0, length - 1)), 0U) << code;
    }
}

// An accepted sequence, decoded and encoded again, is the same sequence.
TEST(Utf8, AcceptsNothingElse) {
    std::size_t letters = 0;
    for (std::uint32_t bytes = 0; bytes < 1U << 24; bytes += bytes % 3 + 1) {
        const std::string text = {static_cast<char>(bytes >> 16), static_cast<char>(bytes >> 8),
                                  static_cast<char>(bytes)};
        const std::size_t length = utf8_sequence(text);
        if (length < 2) {
            continue;
        }
        ASSERT_LE(length, 3U);
        std::uint32_t code = static_cast<unsigned char>(text[0]) & (length == 2 ? 0x1f : 0x0f);
        for (std::size_t i = 1; i < length; ++i) {
            code = code << 6 | (static_cast<unsigned char>(text[i]) & 0x3f);
        }
        std::string again;
        append_utf8(again, code);
        ASSERT_EQ(again, text.substr(0, length)) << bytes;
        ++letters;
    }
    EXPECT_GT(letters, 10'000U);
    for (const std::string& bad : {"\x80"s, "\xc0\x80"s, "\xf5\x80\x80\x80"s, "\xf4\x90\x80\x80"s, "\xf0\x8f\xbf\xbf"s,
                                   "\xf0\x90\x80"s, "\xff"s, ""s}) {
        EXPECT_EQ(utf8_sequence(bad), 0U);
    }
}

TEST(Utf8, WholeTexts) {
    EXPECT_TRUE(is_utf8(""));
    EXPECT_TRUE(is_utf8("a\0\xc3\xa4\xf0\x9f\x98\x80"s));
    EXPECT_FALSE(is_utf8("a\xc3"));
    EXPECT_FALSE(is_utf8("\xed\xa0\x80"));
}

}  // namespace
}  // namespace stoker
