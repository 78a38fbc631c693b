// Names of settings in messages, as programs and another front end print them.
#include "stoker/base/setting_names.h"

#include <gtest/gtest.h>

#include "stoker/base/error.h"

namespace stoker {
namespace {

std::string in_program(std::string_view text) {
    return fill_settings(text, name_in_program);
}

TEST(SettingNames, ProgramsPrintKeysOfARecipe) {
    EXPECT_EQ(in_program("lower <data.batch_size>, or set <data.drop_last = false>"),
              "lower data.batch_size, or set data.drop_last = false");
    EXPECT_EQ(in_program("<--codec raw>, <--skip-bad true> or <--quality>"), "--codec raw, --skip-bad or --quality");
    EXPECT_EQ(in_program("a<program:, or b> c"), "a, or b c");
}

TEST(SettingNames, OtherTextStays) {
    for (const char* text : {"", "<", "a < b > c", "<name>", "<data.x", "<data.x = \"a>", "data.x", "<<", "a<b>"}) {
        EXPECT_EQ(in_program(text), text);
    }
    EXPECT_EQ(in_program("<<data.x>>"), "<data.x>");
}

TEST(SettingNames, AValueInQuotesMayContainAnything) {
    EXPECT_EQ(in_program(R"(<data.train = "a>b\">c"> d)"), R"(data.train = "a>b\">c" d)");
}

std::string shouted(std::string_view key, std::string_view value) {
    return key == kForPrograms ? "" : "!" + std::string(key) + "|" + std::string(value);
}

TEST(SettingNames, AnErrorIsPrintedWithTheNamesOfEachFrontEnd) {
    const ErrorInfo info{.where = "data.workers",
                         .expected = "<data.prefetch = 3>",
                         .got = "4",
                         .hint = "lower <data.workers><program: or --workers>"};
    const InvalidArgument error(info);
    EXPECT_STREQ(error.what(), "[data.workers] expected data.prefetch = 3, got 4; lower data.workers or --workers");
    EXPECT_EQ(error.message(shouted), "[!data.workers|] expected !data.prefetch|3, got 4; lower !data.workers|");
    EXPECT_EQ(error.info().where, "data.workers");
    const IoError line("[a.bin] expected room; lower <data.workers>");
    EXPECT_STREQ(line.what(), "[a.bin] expected room; lower data.workers");
    EXPECT_EQ(line.message(shouted), "[a.bin] expected room; lower !data.workers|");
    EXPECT_EQ(line.info().where, "a.bin");
    const DataError bad({.path = "a.tar", .key = "1.jpg"}, info);
    EXPECT_EQ(bad.message(shouted), "[!a.tar: 1.jpg|] expected !data.prefetch|3, got 4; lower !data.workers|");
}

}  // namespace
}  // namespace stoker
