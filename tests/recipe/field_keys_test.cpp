// [data.fields.NAME]: read, written, set from the command line, and refused where it is wrong.
#include "stoker/recipe/field_keys.h"

#include <gmock/gmock.h>

namespace stoker::field_keys_test {
namespace {

using ::testing::HasSubstr;

constexpr const char* kText = R"([data]
train = "x"
[data.fields]
image = "pixels"
[data.fields.seg]
is = "mask"
from = "seg.png"
[data.fields.boxes]
is = "boxes"
pad = 20
[data.fields.second]
is = "image"
train_ops = [{op = "resize", size = 32}]
)";

std::string refusal(const std::string& text, const std::vector<std::string>& sets = {}) {
    try {
        parse_recipe(text, "r.toml", sets);
    } catch (const InvalidArgument& error) {
        return error.what();
    }
    return "accepted";
}

TEST(FieldKeys, AreRead) {
    const Recipe recipe = parse_recipe(kText, "r.toml");
    EXPECT_EQ(recipe.data.fields.image, "pixels");
    const std::vector<FieldRecipe>& fields = recipe.data.fields.more;
    ASSERT_EQ(fields.size(), 3u);
    EXPECT_EQ(fields[0].name, "seg");
    EXPECT_EQ(fields[0].is, "mask");
    EXPECT_EQ(fields[0].from, "seg.png");
    EXPECT_FALSE(fields[0].pad || fields[0].train_ops);
    EXPECT_EQ(fields[1].pad, 20);
    ASSERT_TRUE(fields[2].train_ops);
    EXPECT_EQ(fields[2].train_ops->front().name, "resize");
    EXPECT_FALSE(fields[2].val_ops);
}

TEST(FieldKeys, AreWrittenAsTheyAreRead) {
    const std::string text = recipe_to_toml(parse_recipe(kText, "r.toml"));
    EXPECT_THAT(text, HasSubstr("\n[data.fields.boxes]\nis = \"boxes\"\nfrom = \"\"\npad = 20\n"));
    EXPECT_EQ(recipe_to_toml(parse_recipe(text, "again.toml")), text);
}

TEST(FieldKeys, CanBeSet) {
    const Recipe recipe =
        parse_recipe("data.train = \"x\"", "r.toml",
                     {"data.fields.angle.is=value", "data.fields.angle.from=a", "data.fields.angle.pad=none"});
    ASSERT_EQ(recipe.data.fields.more.size(), 1u);
    EXPECT_EQ(recipe.data.fields.more[0].from, "a");
    EXPECT_TRUE(find_any_key("data.fields.angle.is"));
    EXPECT_TRUE(find_any_key("data.workers"));
    EXPECT_FALSE(find_any_key("data.fields.angle.si"));
    EXPECT_FALSE(find_any_key("data.fields.is"));
    EXPECT_FALSE(find_any_key("data.fields.a b.is"));
}

TEST(FieldKeys, MistakesAreNamed) {
    const std::string head = "data.train = \"x\"\n[data.fields.seg]\n";
    EXPECT_THAT(refusal(head + "si = \"mask\""), HasSubstr("did you mean \"is\"?"));
    EXPECT_THAT(refusal(head + "is = \"masks\""), HasSubstr("\"tokens\" or \"bytes\""));
    EXPECT_THAT(refusal(head + "pad = 0"), HasSubstr("data.fields.seg.pad"));
    EXPECT_THAT(refusal("data.train = \"x\"\n[data.fields.key]\n"), HasSubstr("not image, label, index or key"));
    EXPECT_THAT(refusal("data.train = \"x\"\n[data.fields.\"a.b\"]\n"), HasSubstr("r.toml:2"));
    EXPECT_THAT(refusal("data.train = \"x\"", {"data.fields.seg.si=mask"}), HasSubstr("--set data.fields.seg.si"));
    EXPECT_THAT(refusal("data.train = \"x\"", {"data.fields.seg=mask"}), HasSubstr("data.fields.seg"));
}

}  // namespace
}  // namespace stoker::field_keys_test
