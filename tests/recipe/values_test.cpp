// The text forms of values.
#include "stoker/recipe/values.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

namespace stoker {
namespace {

TEST(Values, ByteSizes) {
    EXPECT_EQ(parse_byte_size("0"), 0);
    EXPECT_EQ(parse_byte_size("1024"), 1024);
    EXPECT_EQ(parse_byte_size("4GiB"), std::int64_t{4} << 30);
    EXPECT_EQ(parse_byte_size("4 GiB"), std::int64_t{4} << 30);
    EXPECT_EQ(parse_byte_size("3KB"), 3000);
    EXPECT_EQ(parse_byte_size("3KiB"), 3072);
    EXPECT_EQ(parse_byte_size("2MB"), 2'000'000);
    EXPECT_EQ(parse_byte_size("2GB"), 2'000'000'000);
    EXPECT_EQ(parse_byte_size("1TiB"), std::int64_t{1} << 40);
    EXPECT_EQ(parse_byte_size("8388607TiB"), (std::int64_t{8388607} << 40));
    for (const char* text : {"", "GiB", "4gib", "-1", "-1GiB", "4 G", "1.5GiB", "8388608TiB", "4GiBs", " 4GiB", "4 ",
                             "9223372036854775808", "0x10"}) {
        EXPECT_EQ(parse_byte_size(text), std::nullopt) << text;
    }
    EXPECT_EQ(byte_size_text(0), "0");
    EXPECT_EQ(byte_size_text(1000), "1000");
    EXPECT_EQ(byte_size_text(1536), "1536");
    EXPECT_EQ(byte_size_text(3 << 20), "3MiB");
    for (const std::int64_t bytes :
         {std::int64_t{1}, std::int64_t{1} << 62, std::numeric_limits<std::int64_t>::max()}) {
        EXPECT_EQ(parse_byte_size(byte_size_text(bytes)), bytes);
    }
}

TEST(Values, CheckpointIntervals) {
    for (const char* text : {"1 epoch", "2 epochs", "1 step", "200 steps"}) {
        const auto every = parse_interval(text);
        ASSERT_TRUE(every) << text;
        EXPECT_EQ(interval_text(*every), text);
    }
    EXPECT_EQ(interval_text(*parse_interval("3epoch")), "3 epochs");
    for (const char* text : {"", "0 epochs", "-1 epoch", "epoch", "1", "1 minute", "1 epoch ", "1.5 epochs",
                             "99999999999999999999 steps", "4611686018427387904 epochs"}) {
        EXPECT_FALSE(parse_interval(text)) << text;
    }
}

TEST(Values, Shares) {
    EXPECT_EQ(parse_share("10%"), 0.1);
    EXPECT_EQ(parse_share("0.5%"), 0.005);
    EXPECT_EQ(parse_share("99.9%"), 99.9 / 100);
    for (const char* text :
         {"", "%", "10", "0%", "0.0%", "100%", "1000%", "-1%", "+1%", "1 %", "nan%", "inf%", "1%%"}) {
        EXPECT_EQ(parse_share(text), std::nullopt) << text;
    }
}

TEST(Values, TomlText) {
    EXPECT_EQ(toml_string("a\"b\\c\n"), R"("a\"b\\c\u000a")");
    EXPECT_EQ(toml_number(224), "224");
    EXPECT_EQ(toml_number(0.001), "0.001");
    EXPECT_EQ(toml_number(-0.0), "-0.0");
    EXPECT_EQ(toml_number(-3), "-3");
    EXPECT_EQ(toml_key("batch_size-2"), "batch_size-2");
    EXPECT_EQ(toml_key("a b"), "\"a b\"");
    EXPECT_EQ(toml_key(""), "\"\"");
}

}  // namespace
}  // namespace stoker
