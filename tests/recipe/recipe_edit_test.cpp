// Edits of a recipe's text: the keys change, everything else stays byte by byte, and the result parses.
#include "stoker/recipe/recipe_edit.h"

#include <gmock/gmock.h>

#include "stoker/base/error.h"
#include "stoker/recipe/recipe.h"

namespace stoker {
namespace {

const std::vector<RecipeEdit> kWorkers = {{.key = "data.workers", .value = "4", .comment = "1.9x; was 0"}};

TEST(RecipeEdit, ReplacesAValueAndKeepsTheRest) {
    const std::string text =
        "# mine\nseed = 7  # lucky\n\n[data]\n  train = \"ä/ö\"   # here\n  workers = 0 # slow\nprefetch=2\n";
    EXPECT_EQ(edit_recipe(text, kWorkers, "x"),
              "# mine\nseed = 7  # lucky\n\n[data]\n  train = \"ä/ö\"   # here\n  # 1.9x; was 0\n  workers = 4 # slow\n"
              "prefetch=2\n");
}

TEST(RecipeEdit, ReplacesAValueAfterLettersOfSeveralBytes) {
    EXPECT_EQ(edit_recipe("data = {train = \"äöü€\", workers = 0}", kWorkers, "x"),
              "# 1.9x; was 0\ndata = {train = \"äöü€\", workers = 4}");
}

TEST(RecipeEdit, InsertsBelowTheHeaderOfTheTable) {
    EXPECT_EQ(edit_recipe("[ data ] # d\ntrain = \"t\"\n[train]\nepochs = 1", kWorkers, "x"),
              "[ data ] # d\n# 1.9x; was 0\nworkers = 4\ntrain = \"t\"\n[train]\nepochs = 1");
    EXPECT_EQ(edit_recipe("[data]", kWorkers, "x"), "[data]\n# 1.9x; was 0\nworkers = 4\n");
}

TEST(RecipeEdit, InsertsIntoInlineTablesAndBesideDottedKeys) {
    EXPECT_EQ(edit_recipe("data = {train = \"t\"}\n", kWorkers, "x"),
              "# 1.9x; was 0\ndata = {workers = 4, train = \"t\"}\n");
    EXPECT_EQ(edit_recipe("data = { }\n", kWorkers, "x"), "# 1.9x; was 0\ndata = {workers = 4 }\n");
    EXPECT_EQ(edit_recipe("seed = 1\ndata.train = \"t\"\n", kWorkers, "x"),
              "seed = 1\n# 1.9x; was 0\ndata.workers = 4\ndata.train = \"t\"\n");
}

TEST(RecipeEdit, AddsATableAndRootKeys) {
    EXPECT_EQ(edit_recipe("seed = 1", {{.key = "train.channels_last", .value = "false"}}, "x"),
              "seed = 1\n\n[train]\nchannels_last = false\n");
    EXPECT_EQ(edit_recipe("[data]\n", {{.key = "device", .value = "\"cpu\""}}, "x"), "device = \"cpu\"\n[data]\n");
}

TEST(RecipeEdit, KeepsWindowsLineBreaks) {
    EXPECT_EQ(edit_recipe("[data]\r\ntrain = \"t\"\r\n", kWorkers, "x"),
              "[data]\r\n# 1.9x; was 0\r\nworkers = 4\r\ntrain = \"t\"\r\n");
}

TEST(RecipeEdit, KeepsAByteOrderMark) {
    const std::string mark = "\xEF\xBB\xBF";
    EXPECT_EQ(edit_recipe(mark + "[data]\nworkers = 0\n", kWorkers, "x"),
              mark + "[data]\n# 1.9x; was 0\nworkers = 4\n");
    EXPECT_EQ(edit_recipe(mark + "data = {workers = 0}\n", kWorkers, "x"),
              mark + "# 1.9x; was 0\ndata = {workers = 4}\n");
    EXPECT_EQ(edit_recipe(mark + "[data]\n", {{.key = "seed", .value = "2"}}, "x"), mark + "seed = 2\n[data]\n");
}

TEST(RecipeEdit, TheResultIsTheRecipeWithTheKeysSet) {
    const std::string text =
        "seed = 3\n[data]\ntrain = \"t\"\ntrain_ops = [{op = \"horizontal_flip\"},\n  {op = \"resize\", size = 8}]\n"
        "[data.fields]\nimage = \"x\"\n[model]\nname = \"resnet18\"\n";
    const std::vector<RecipeEdit> edits = {{.key = "data.workers", .value = "2", .comment = "a"},
                                           {.key = "data.cache", .value = "\"ram\"", .comment = "b"},
                                           {.key = "data.fields.label", .value = "\"y\""},
                                           {.key = "train.threads", .value = "1", .comment = "c"}};
    const std::string edited = edit_recipe(text, edits, "x");
    const Recipe expected =
        parse_recipe(text, "x", {"data.workers=2", "data.cache=ram", "data.fields.label=y", "train.threads=1"});
    EXPECT_EQ(recipe_to_toml(parse_recipe(edited, "x")), recipe_to_toml(expected));
}

TEST(RecipeEdit, SettingAKeyTwiceKeepsTheLastValue) {
    EXPECT_EQ(edit_recipe("[data]\nworkers = 1\n",
                          {{.key = "data.workers", .value = "2"}, {.key = "data.workers", .value = "3"}}, "x"),
              "[data]\nworkers = 3\n");
}

TEST(RecipeEdit, RefusesTextThatIsNotToml) {
    EXPECT_THROW(edit_recipe("[data", kWorkers, "x"), InvalidArgument);
}

}  // namespace
}  // namespace stoker
