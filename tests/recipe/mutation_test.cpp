// Thousands of damaged recipes: each is either refused with InvalidArgument on one line, or is a
// recipe that survives being written and read again.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/recipe/recipe.h"
#include "stoker/recipe/schema.h"
#include "support/paths.h"

namespace stoker {
namespace {

constexpr std::array<std::string_view, 34> kFragments = {"[",
                                                         "]",
                                                         "[[",
                                                         "]]",
                                                         "{",
                                                         "}",
                                                         "=",
                                                         "\"",
                                                         "'",
                                                         "\"\"\"",
                                                         "'''",
                                                         ".",
                                                         ",",
                                                         "#",
                                                         "\n",
                                                         "\r\n",
                                                         "\\u",
                                                         "\\",
                                                         "\xff",
                                                         "\xed\xa0\x80",
                                                         "inf",
                                                         "nan",
                                                         "-0.0",
                                                         "1e999",
                                                         "0x7f",
                                                         "1_000",
                                                         "true",
                                                         "10%",
                                                         "auto",
                                                         "[data]",
                                                         "[[data.train_ops]]",
                                                         "op = ",
                                                         "07:32:00",
                                                         "1979-05-27T07:32:00Z"};

class Mutator {
  public:
    explicit Mutator(std::vector<std::string> corpus) : corpus_(std::move(corpus)) {}

    std::size_t below(std::size_t end) { return end == 0 ? 0 : random_() % end; }

    template <typename List>
    const auto& pick(const List& list) {
        return list[below(list.size())];
    }

    std::string next() {
        std::string text = pick(corpus_);
        const std::size_t changes = 1 + below(4);
        for (std::size_t i = 0; i < changes; ++i) {
            change(text);
        }
        return text;
    }

  private:
    void change(std::string& text) {
        const std::size_t at = below(text.size() + 1);
        const std::size_t length = below(20);
        switch (below(6)) {
            case 0:
                text.insert(at, 1, static_cast<char>(below(256)));
                break;
            case 1:
                if (at < text.size()) {
                    text[at] = static_cast<char>(text[at] ^ (1 << below(8)));
                }
                break;
            case 2:
                text.erase(at, length);
                break;
            case 3:
                text.insert(at, pick(kFragments));
                break;
            case 4:
                text.insert(at, text.substr(below(text.size() + 1), length * 4));
                break;
            default: {
                const std::string& other = pick(corpus_);
                text = text.substr(0, at) + other.substr(below(other.size() + 1));
            }
        }
    }

    std::vector<std::string> corpus_;
    std::mt19937_64 random_{20};
};

Mutator shipped_recipes() {
    std::vector<std::string> corpus;
    for (const auto& entry : std::filesystem::directory_iterator(testing::source_dir() / "recipes")) {
        corpus.push_back(read_text(entry.path()));
    }
    std::ranges::sort(corpus);
    const std::size_t shipped = corpus.size();
    for (std::size_t i = 0; i < shipped; ++i) {
        corpus.push_back(recipe_to_toml(parse_recipe(corpus[i], "r")));
    }
    return Mutator(std::move(corpus));
}

// True if the text was accepted. Any exception but InvalidArgument fails the test.
bool survives(const std::string& text, const std::vector<std::string>& sets) {
    try {
        const Recipe recipe = parse_recipe(text, "r.toml", sets);
        const std::string written = recipe_to_toml(recipe);
        EXPECT_EQ(recipe_to_toml(parse_recipe(written, "r.toml")), written) << text;
        return true;
    } catch (const InvalidArgument& error) {
        const std::string_view message = error.what();
        EXPECT_EQ(message.find('\n'), std::string_view::npos) << message;
        EXPECT_TRUE(message.starts_with("[r.toml") || message.starts_with("[--set ")) << message;
        return false;
    }
}

TEST(RecipeMutations, AreRefusedOrReadButNeverCrash) {
    Mutator mutator = shipped_recipes();
    int accepted = 0;
    constexpr int kRounds = 6000;
    for (int i = 0; i < kRounds && !::testing::Test::HasFailure(); ++i) {
        accepted += survives(mutator.next(), {}) ? 1 : 0;
    }
    EXPECT_GT(accepted, kRounds / 100);  // else the mutations are too coarse to test much
    EXPECT_LT(accepted, kRounds / 2);
}

TEST(RecipeMutations, OfSetsToo) {
    Mutator mutator = shipped_recipes();
    int accepted = 0;
    constexpr int kRounds = 4000;
    for (int i = 0; i < kRounds && !::testing::Test::HasFailure(); ++i) {
        const std::string text = mutator.next();
        const std::string value =
            mutator.below(2) == 0 ? std::string(mutator.pick(kFragments)) : text.substr(mutator.below(text.size()), 30);
        accepted += survives("data.train = \"x\"", {mutator.pick(recipe_schema()).name + "=" + value}) ? 1 : 0;
    }
    EXPECT_GT(accepted, kRounds / 100);
}

}  // namespace
}  // namespace stoker
