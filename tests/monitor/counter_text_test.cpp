// Words and numbers of made-up texts, and files that are absent, empty, long, or no numbers.
#include "stoker/monitor/counter_text.h"

#include <gtest/gtest.h>

#include "monitor/support.h"

namespace stoker {
namespace {

TEST(CounterText, IsCutIntoLinesAndWords) {
    std::string_view text = "one\ttwo  \n\nlast";
    std::string_view line = take_line(text);
    EXPECT_EQ(take_word(line), "one");
    EXPECT_EQ(take_word(line), "two");
    EXPECT_EQ(take_word(line), "");
    EXPECT_EQ(take_line(text), "");
    EXPECT_EQ(take_line(text), "last");
    EXPECT_EQ(take_line(text), "");
}

TEST(CounterText, NumbersAreWholeWords) {
    std::string_view text = "12 -3 4x 99999999999999999999 0.5 nan -1.5 1e400";
    EXPECT_EQ(take_number<std::int64_t>(text), 12);
    EXPECT_EQ(take_number<std::int64_t>(text), -3);
    EXPECT_EQ(take_number<std::int64_t>(text), std::nullopt);
    EXPECT_EQ(take_number<std::int64_t>(text), std::nullopt);
    EXPECT_EQ(take_decimal(text), 0.5);
    EXPECT_EQ(take_decimal(text), std::nullopt);
    EXPECT_EQ(take_decimal(text), std::nullopt);
    EXPECT_EQ(take_decimal(text), std::nullopt);
    EXPECT_EQ(take_decimal(text), std::nullopt);  // nothing left
}

TEST(CounterText, ALineIsFoundByItsWholeName) {
    const std::string_view text = "pswpin_all 1\n pswpin 2\npswpin 3\nempty\nMemTotal:   8 kB";
    EXPECT_EQ(named_number(text, "pswpin"), 3);
    EXPECT_EQ(named_number(text, "MemTotal:"), 8);
    EXPECT_EQ(named_number(text, "empty"), std::nullopt);
    EXPECT_EQ(named_number(text, "absent"), std::nullopt);
    EXPECT_EQ(named_number("", "absent"), std::nullopt);
}

TEST(CounterText, ACounterThatWasSetBackHasNoDifference) {
    EXPECT_EQ(difference(3, 10), 7.0);
    EXPECT_EQ(difference(10, 3), std::nullopt);
    EXPECT_EQ(difference(std::nullopt, 3), std::nullopt);
    EXPECT_EQ(difference(3, std::nullopt), std::nullopt);
}

TEST(CounterText, FilesAreReadWholeUpToOneMebibyte) {
    const testing::MadeUpTree tree;
    const std::string text(20'000, 'x');
    tree.write("long", text);
    tree.write("huge", std::string(3 << 20, 'x'));
    tree.write("number", "4096\n");
    tree.write("max", "max\n");
    tree.write("two", "1 2\n");
    tree.write("empty", "");
    EXPECT_EQ(read_counter_file(tree.root() + "/long"), text);
    EXPECT_EQ(read_counter_file(tree.root() + "/huge")->size(), std::size_t{1} << 20);
    EXPECT_EQ(read_counter_file(tree.root() + "/empty"), "");
    EXPECT_EQ(read_counter_file(tree.root() + "/absent"), std::nullopt);
    EXPECT_EQ(read_counter_file(tree.root()), std::nullopt);  // a folder
    EXPECT_EQ(read_counter_number(tree.root() + "/number"), 4096);
    for (const char* name : {"/max", "/two", "/empty", "/absent"}) {
        EXPECT_EQ(read_counter_number(tree.root() + name), std::nullopt) << name;
    }
}

}  // namespace
}  // namespace stoker
