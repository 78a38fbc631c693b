// Reading recipes: defaults, every kind of value, --set, and writing them.
#include "stoker/recipe/recipe.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>

#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "support/temp_dir.h"

namespace stoker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kEverything = R"(
seed = 9223372036854775807
device = "cuda:1"
[data]
train = 'C:\data "x"'
val = "12.5%"
batch_size = 256
workers = 0
prefetch = 1024
pin_memory = false
cache = "ram"
cache_bytes = "3MB"
shuffle = false
drop_last = true
exif = true
val_ops = []
[[data.train_ops]]
op = "random_resized_crop"
size = 224
scale = [0.08, 1]
[[data.train_ops]]
op = "odd"
"a key" = true
text = "é\n"
[model]
name = "resnet18"
classes = 10
hidden = []
stem = "cifar"
[optimizer]
name = "sgd"
lr = 1
momentum = 0.9
nesterov = true
beta1 = 0.5
beta2 = 0.25
eps = 0
weight_decay = 5e-4
[schedule]
name = "one_cycle"
pct_start = 0.25
div_factor = 10
final_div_factor = 1e3
[train]
epochs = 3
precision = "fp32"
channels_last = false
threads = 2
deterministic = true
checkpoint_every = "200 steps"
)";

Recipe with(const std::vector<std::string>& sets) {
    return parse_recipe("data.train = \"x\"", "r.toml", sets);
}

TEST(Recipe, LeavesDefaultsWhereNothingIsSaid) {
    const Recipe recipe = parse_recipe("[data]\ntrain = \"synth:digits\"\n", "some/dir/tiny.toml");
    EXPECT_EQ(recipe.name, "tiny");
    EXPECT_EQ(recipe.data.train, "synth:digits");
    Recipe expected;
    expected.data.train = "synth:digits";
    EXPECT_EQ(recipe_to_toml(recipe), recipe_to_toml(expected));
}

TEST(Recipe, ReadsEveryKey) {
    const Recipe recipe = parse_recipe(kEverything, "all.tuned.toml");
    EXPECT_EQ(recipe.name, "all.tuned");
    EXPECT_EQ(recipe.seed, 9223372036854775807U);
    EXPECT_EQ(recipe.device, "cuda:1");
    EXPECT_EQ(recipe.data.train, "C:\\data \"x\"");
    EXPECT_EQ(recipe.data.val, "12.5%");
    EXPECT_EQ(recipe.data.batch_size, 256);
    EXPECT_EQ(recipe.data.workers, 0);
    EXPECT_EQ(recipe.data.prefetch, 1024);
    EXPECT_FALSE(recipe.data.pin_memory);
    EXPECT_EQ(recipe.data.cache, "ram");
    EXPECT_EQ(recipe.data.cache_bytes, 3'000'000);
    EXPECT_FALSE(recipe.data.shuffle);
    EXPECT_TRUE(recipe.data.drop_last);
    EXPECT_TRUE(recipe.data.exif);
    EXPECT_EQ(recipe.model.name, "resnet18");
    EXPECT_EQ(recipe.model.classes, 10);
    EXPECT_TRUE(recipe.model.hidden.empty());
    EXPECT_EQ(recipe.model.stem, "cifar");
    EXPECT_EQ(recipe.optimizer.name, "sgd");
    EXPECT_EQ(recipe.optimizer.lr, 1.0);
    EXPECT_EQ(recipe.optimizer.momentum, 0.9);
    EXPECT_TRUE(recipe.optimizer.nesterov);
    EXPECT_EQ(recipe.optimizer.beta1, 0.5);
    EXPECT_EQ(recipe.optimizer.beta2, 0.25);
    EXPECT_EQ(recipe.optimizer.eps, 0);
    EXPECT_EQ(recipe.optimizer.weight_decay, 5e-4);
    EXPECT_EQ(recipe.schedule.name, "one_cycle");
    EXPECT_EQ(recipe.schedule.pct_start, 0.25);
    EXPECT_EQ(recipe.schedule.div_factor, 10);
    EXPECT_EQ(recipe.schedule.final_div_factor, 1000);
    EXPECT_EQ(recipe.train.epochs, 3);
    EXPECT_EQ(recipe.train.precision, "fp32");
    EXPECT_FALSE(recipe.train.channels_last);
    EXPECT_EQ(recipe.train.threads, 2);
    EXPECT_TRUE(recipe.train.deterministic);
    EXPECT_EQ(recipe.train.checkpoint_every.count, 200);
    EXPECT_FALSE(recipe.train.checkpoint_every.epochs);
}

TEST(Recipe, KeepsOpsInOrderWithTheirOptionsAndPlaces) {
    const Recipe recipe = parse_recipe(kEverything, "r.toml");
    ASSERT_EQ(recipe.data.train_ops.size(), 2U);
    EXPECT_TRUE(recipe.data.val_ops.empty());
    const OpSpec& crop = recipe.data.train_ops[0];
    EXPECT_EQ(crop.name, "random_resized_crop");
    EXPECT_EQ(crop.where, "r.toml:17: data.train_ops[0]");
    ASSERT_EQ(crop.options.size(), 2U);
    EXPECT_EQ(std::get<double>(crop.options.at("size")), 224);
    EXPECT_THAT(std::get<std::vector<double>>(crop.options.at("scale")), ElementsAre(0.08, 1));
    const OpSpec& odd = recipe.data.train_ops[1];
    EXPECT_TRUE(std::get<bool>(odd.options.at("a key")));
    EXPECT_EQ(std::get<std::string>(odd.options.at("text")), "é\n");
}

TEST(Recipe, SetReadsTheValueByTheKeysType) {
    const Recipe recipe =
        with({"data.batch_size=8", "model.name=resnet18", "optimizer.lr=1e-2", "data.val=10%", "data.workers=4",
              "train.threads=auto", "data.cache_bytes=4KiB", "train.checkpoint_every=200 steps", "model.hidden=[3, 4]",
              "train.deterministic=true", "device=\"cpu\"", "data.batch_size=16", "data.train=2024-01-01"});
    EXPECT_EQ(recipe.data.batch_size, 16);  // the last one holds
    EXPECT_EQ(recipe.model.name, "resnet18");
    EXPECT_EQ(recipe.optimizer.lr, 0.01);
    EXPECT_EQ(recipe.data.val, "10%");
    EXPECT_EQ(recipe.data.workers, 4);
    EXPECT_EQ(recipe.train.threads, std::nullopt);
    EXPECT_EQ(recipe.data.cache_bytes, 4096);
    EXPECT_EQ(recipe.train.checkpoint_every.count, 200);
    EXPECT_THAT(recipe.model.hidden, ElementsAre(3, 4));
    EXPECT_TRUE(recipe.train.deterministic);
    EXPECT_EQ(recipe.device, "cpu");
    EXPECT_EQ(recipe.data.train, "2024-01-01");
}

TEST(Recipe, SetTakesTextAsItStands) {
    EXPECT_EQ(with({"data.train=a=b # c"}).data.train, "a=b # c");
    EXPECT_EQ(with({"data.train=C:\\new"}).data.train, "C:\\new");
    EXPECT_EQ(with({"data.train=[1]"}).data.train, "[1]");
    EXPECT_EQ(with({"data.train='q'"}).data.train, "q");
    EXPECT_EQ(with({"data.val=5%", "data.val="}).data.val, "");
    EXPECT_EQ(with({"data.train=true\nseed = 3"}).data.train, "true\nseed = 3");
}

TEST(Recipe, SetReplacesOps) {
    const Recipe recipe = with({R"(data.train_ops=[{op = "resize", size = [32, 48]}, {op = "horizontal_flip"}])"});
    ASSERT_EQ(recipe.data.train_ops.size(), 2U);
    EXPECT_THAT(std::get<std::vector<double>>(recipe.data.train_ops[0].options.at("size")), ElementsAre(32, 48));
    EXPECT_EQ(recipe.data.train_ops[1].where, "--set data.train_ops[1]");
}

TEST(Recipe, SetProvidesWhatTheFileLeavesOut) {
    EXPECT_EQ(parse_recipe("", "r.toml", {"data.train=x"}).data.train, "x");
}

TEST(Recipe, WritesWhatItReads) {
    const Recipe recipe = parse_recipe(kEverything, "r.toml");
    const std::string text = recipe_to_toml(recipe);
    EXPECT_EQ(recipe_to_toml(parse_recipe(text, "r.toml")), text);
    EXPECT_THAT(text, HasSubstr("\n[data]\ntrain = \"C:\\\\data \\\"x\\\"\"\n"));
    EXPECT_THAT(text, HasSubstr("\ncheckpoint_every = \"200 steps\"\n"));
    EXPECT_THAT(text, HasSubstr("\n    {op = \"random_resized_crop\", scale = [0.08, 1], size = 224},\n"));
    EXPECT_THAT(text, HasSubstr("\"a key\" = true"));
}

TEST(Recipe, OpsMayHoldOps) {
    const std::string entry =
        R"({op = "random_choice", ops = [{op = "resize", size = [3, 4]}, {op = "x"}], p = [1, 3]})";
    const Recipe recipe = with({fmt::format("data.train_ops=[{}]", entry)});
    const auto& ops = std::get<std::vector<OpSpec>>(recipe.data.train_ops[0].options.at("ops"));
    ASSERT_EQ(ops.size(), 2U);
    EXPECT_EQ(ops[1].name, "x");
    EXPECT_EQ(ops[1].where, "--set data.train_ops[0].ops[1]");
    const std::string text = recipe_to_toml(recipe);
    EXPECT_THAT(text, HasSubstr(entry));
    EXPECT_EQ(recipe_to_toml(parse_recipe(text, "r.toml")), text);
    EXPECT_THROW(with({"data.train_ops=[{op = \"a\", ops = [{op = \"b\"}, 3]}]"}), Error);
}

// A word that nothing knows would be taken for another one.
TEST(Recipe, AProgramsRecipeHasKnownNames) {
    Recipe recipe;
    require_known_names(recipe);
    recipe.data.train = "any where, \"quoted\"";
    recipe.optimizer.name = "adamw";
    recipe.train.precision = "bf16";
    recipe.optimizer.lr = 0;  // as a test of the schedule may want it
    require_known_names(recipe);
    const auto refused = [](const auto& change) {
        Recipe changed;
        change(changed);
        try {
            require_known_names(changed);
        } catch (const InvalidArgument& error) {
            return std::string(error.what());
        }
        return std::string();
    };
    EXPECT_THAT(refused([](Recipe& r) { r.optimizer.name = "SGD"; }),
                HasSubstr("[recipe optimizer.name] expected \"sgd\", \"adam\" or \"adamw\", got \"SGD\""));
    EXPECT_THAT(refused([](Recipe& r) { r.train.precision = "float32"; }), HasSubstr("train.precision"));
    EXPECT_THAT(refused([](Recipe& r) { r.schedule.name = "cosine_annealing"; }), HasSubstr("schedule.name"));
    EXPECT_THAT(refused([](Recipe& r) { r.train.compile = "off"; }), HasSubstr("train.compile"));
}

TEST(Recipe, WritesDoublesExactly) {
    std::vector<double> numbers = {0.1,
                                   -0.0,
                                   1e-300,
                                   5e-324,
                                   1.7976931348623157e308,
                                   9007199254740992.0,
                                   9007199254740994.0,
                                   -9007199254740994.0,
                                   1e15,
                                   1e16,
                                   -3,
                                   0.30000000000000004};
    std::mt19937_64 random(3);
    while (numbers.size() < 2000) {
        const auto number = std::bit_cast<double>(random());
        if (std::isfinite(number)) {
            numbers.push_back(number);
        }
    }
    Recipe recipe;
    recipe.data.train = "x";
    for (std::size_t i = 0; i < numbers.size(); i += 500) {
        const std::vector<double> part(numbers.begin() + static_cast<std::ptrdiff_t>(i),
                                       numbers.begin() + static_cast<std::ptrdiff_t>(i + 500));
        recipe.data.train_ops = {{.name = "x", .options = {{"n", part}}, .where = {}}};
        const Recipe back = parse_recipe(recipe_to_toml(recipe), "r.toml");
        const auto& read = std::get<std::vector<double>>(back.data.train_ops[0].options.at("n"));
        ASSERT_EQ(read.size(), part.size());
        for (std::size_t k = 0; k < part.size(); ++k) {
            ASSERT_EQ(std::bit_cast<std::uint64_t>(read[k]), std::bit_cast<std::uint64_t>(part[k])) << part[k];
        }
    }
}

TEST(Recipe, WritesEveryCharacterOfText) {
    Recipe recipe;
    for (int c = 1; c < 128; ++c) {
        recipe.data.train += static_cast<char>(c);
    }
    recipe.data.train += "ü 漢 🙂";
    EXPECT_EQ(parse_recipe(recipe_to_toml(recipe), "r.toml").data.train, recipe.data.train);
}

TEST(Recipe, RefusesToWriteASeedThatTomlCannotHold) {
    Recipe recipe;
    recipe.seed = std::uint64_t{1} << 63;
    EXPECT_THROW(recipe_to_toml(recipe), InvalidArgument);
}

TEST(Recipe, RatesOfPatternsComeBack) {
    const Recipe recipe =
        parse_recipe("[data]\ntrain = \"x\"\n[optimizer]\nlr_scales = [\"layer1.*=0.1\", \"a=b=2e-3\"]\n", "r.toml");
    const std::vector<LrScale> scales = {{"layer1.*", 0.1}, {"a=b", 0.002}};
    EXPECT_EQ(recipe.optimizer.lr_scales, scales);
    EXPECT_EQ(parse_recipe(recipe_to_toml(recipe), "r.toml").optimizer.lr_scales, scales);
    for (const char* wrong : {"=1", "a=", "a=1x", "a=-1", "a=inf", "a= 1", "a"}) {
        const std::string toml = fmt::format("[data]\ntrain = \"x\"\n[optimizer]\nlr_scales = [\"{}\"]\n", wrong);
        EXPECT_THROW(parse_recipe(toml, "r.toml"), InvalidArgument) << wrong;
    }
}

TEST(Recipe, ReadsFiles) {
    const testing::TempDir folder;
    write_file(folder / "a.toml", "\xef\xbb\xbf[data]\r\ntrain = \"x\"\r\n");  // a byte order mark, CRLF
    const Recipe recipe = read_recipe((folder / "a.toml").string(), {"seed=5"});
    EXPECT_EQ(recipe.name, "a");
    EXPECT_EQ(recipe.data.train, "x");
    EXPECT_EQ(recipe.seed, 5U);
    EXPECT_THROW(read_recipe((folder / "absent.toml").string()), IoError);
    EXPECT_THROW(read_recipe(folder.path().string()), IoError);
    write_file(folder / "large.toml", std::string(100'000, '#'));
    EXPECT_THROW(read_recipe((folder / "large.toml").string()), InvalidArgument);
}

}  // namespace
}  // namespace stoker
