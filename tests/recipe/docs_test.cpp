// The examples of docs/recipe.md, and the recipes that come with Stoker.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "stoker/base/file.h"
#include "stoker/recipe/schema.h"
#include "support/paths.h"

namespace stoker {
namespace {

const std::filesystem::path kRoot = testing::source_dir();

std::vector<std::string> lines_of(const std::filesystem::path& path) {
    std::istringstream stream(read_text(path));
    std::vector<std::string> lines;
    for (std::string line; std::getline(stream, line);) {
        lines.push_back(line);
    }
    return lines;
}

TEST(RecipeDocs, ExamplesAreRecipes) {
    std::string example;
    bool inside = false;
    int examples = 0;
    for (const std::string& line : lines_of(kRoot / "docs/recipe.md")) {
        if (line == "```toml") {
            inside = true;
            example.clear();
        } else if (line == "```" && inside) {
            inside = false;
            ++examples;
            EXPECT_NO_THROW(parse_recipe(example, "example")) << example;
        } else if (inside) {
            example += line + "\n";
        }
    }
    EXPECT_GE(examples, 1);
}

TEST(RecipeSchema, KeysOfATableStandTogether) {
    std::vector<std::string> tables;
    for (const SchemaKey& key : recipe_schema()) {
        if (tables.empty() || tables.back() != key.table()) {
            tables.emplace_back(key.table());
        }
        EXPECT_EQ(std::ranges::count(recipe_schema(), key.name, &SchemaKey::name), 1) << key.name;
        EXPECT_EQ(key.about.find('|'), std::string::npos) << key.name;
    }
    EXPECT_EQ(tables, (std::vector<std::string>{"", "data", "data.fields", "model", "optimizer", "schedule", "train",
                                                "train.mesh"}));
}

TEST(ShippedRecipes, AreReadAndSayWhatTheyTrain) {
    int found = 0;
    for (const auto& entry : std::filesystem::directory_iterator(kRoot / "recipes")) {
        const std::string name = entry.path().filename().string();
        const std::vector<std::string> lines = lines_of(entry.path());
        ASSERT_FALSE(lines.empty()) << name;
        EXPECT_TRUE(lines[0].starts_with("# A ") && lines[0].ends_with('.')) << name;  // `stoker recipe` lists it
        const Recipe recipe = read_recipe(entry.path().string());
        const std::string text = recipe_to_toml(recipe);
        EXPECT_EQ(recipe_to_toml(parse_recipe(text, name)), text);
        EXPECT_EQ(recipe.data.train_ops.back().name, "normalize");
        EXPECT_EQ(recipe.data.val_ops.back().name, "normalize");
        ++found;
    }
    EXPECT_GE(found, 4);
}

TEST(ShippedRecipes, DigitsIsTheFirstRun) {
    const Recipe recipe = read_recipe((kRoot / "recipes/digits.toml").string());
    EXPECT_EQ(recipe.seed, 7U);
    EXPECT_EQ(recipe.data.train, "synth:digits");
    EXPECT_EQ(recipe.data.cache, "ram");
    EXPECT_EQ(recipe.data.batch_size, 64);
    EXPECT_EQ(recipe.model.name, "mlp");
    EXPECT_EQ(recipe.optimizer.name, "adam");
    EXPECT_EQ(recipe.optimizer.lr, 1e-3);
    EXPECT_EQ(recipe.train.epochs, 5);
}

}  // namespace
}  // namespace stoker
