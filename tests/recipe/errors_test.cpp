// Refused recipes, with the whole message: file, line, key, and the allowed values.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "stoker/base/error.h"
#include "stoker/recipe/recipe.h"

namespace stoker {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using ::testing::ThrowsMessage;

std::string refusal(const std::string& text, const std::vector<std::string>& sets = {}) {
    try {
        parse_recipe(text, "r.toml", sets);
    } catch (const InvalidArgument& error) {
        return error.what();
    }
    return "accepted";
}

// The error of a recipe whose last line, the third, is wrong.
std::string refusal_in(const std::string& table, const std::string& line) {
    const std::string head = table == "data" ? "[data]\ntrain = \"x\"\n" : "data.train = \"x\"\n[" + table + "]\n";
    return refusal(head + line);
}

std::string set_refusal(const std::string& set) {
    return refusal("data.train = \"x\"", {set});
}

TEST(RecipeErrors, UnknownKeysNameTheLikelyOne) {
    EXPECT_EQ(refusal("[data]\ntrain = \"x\"\nbatch_sise = 3"),
              "[r.toml:3: data.batch_sise] expected a known key, got \"batch_sise\"; did you mean \"batch_size\"?");
    EXPECT_EQ(refusal("[datta]\ntrain = \"x\""),
              "[r.toml:1: datta] expected a known key, got \"datta\"; did you mean \"data\"?");
    EXPECT_EQ(refusal("batch_size = 3"),
              "[r.toml:1: batch_size] expected a known key, got \"batch_size\"; did you mean \"data.batch_size\"?");
    EXPECT_THAT(refusal_in("model", "epochs = 3"), HasSubstr("did you mean \"train.epochs\"?"));
    EXPECT_THAT(refusal_in("schedule", "zzzzzz = 3"),
                HasSubstr("known in schedule: name, warmup, warmup_factor, end_factor"));
    EXPECT_THAT(refusal("zzzzzz = 3"), HasSubstr("known: seed, device, task, data, model, optimizer, schedule, train"));
    EXPECT_THAT(refusal("\"data.train\" = \"x\""), StartsWith("[r.toml:1: data.train] expected a known key"));
    EXPECT_THAT(refusal(std::string(5000, 'a') + " = 1"), HasSubstr("aaa...\""));
}

TEST(RecipeErrors, TextWithoutQuotesIsRecognised) {
    for (const char* value : {"shapes", "synth:digits", "./data", "true_data", "inferno", "5epochs", "8GiB", "10%"}) {
        EXPECT_THAT(refusal_in("data", fmt::format("val = {}", value)), EndsWith("; text needs quotes: \"...\""))
            << value;
    }
    EXPECT_THAT(set_refusal("data.train_ops=[{op=resize}]"), EndsWith("; text needs quotes: \"...\""));
    EXPECT_THAT(set_refusal("data.mix=[a, b]"), EndsWith("; text needs quotes: \"...\""));
    EXPECT_THAT(refusal_in("data", "val = "), Not(HasSubstr("quotes")));
    EXPECT_THAT(refusal_in("data", "val = \"x"), Not(HasSubstr("quotes")));
}

TEST(RecipeErrors, NamesOfOtherLibrariesAreTranslated) {
    EXPECT_EQ(refusal_in("optimizer", "learning_rate = 3"),
              "[r.toml:3: optimizer.learning_rate] expected a known key, got \"learning_rate\"; did you mean \"lr\"?");
    const std::vector<std::pair<std::string, std::string>> cases = {
        {"data.batchsize", "data.batch_size"},      {"data.num_workers", "data.workers"},
        {"train.max_epochs", "train.epochs"},       {"train.num_workers", "data.workers"},
        {"optimizer.wd", "optimizer.weight_decay"}, {"learning_rate", "optimizer.lr"},
        {"train.grad_clip", "train.clip_norm"},     {"trainer.amp", "train.precision"},
        {"model.num_classes", "model.classes"},     {"schedule.warmup_epochs", "schedule.warmup"},
    };
    for (const auto& [given, key] : cases) {
        EXPECT_THAT(set_refusal(given + "=3"), EndsWith("did you mean \"" + key + "\"?")) << given;
    }
}

TEST(RecipeErrors, OnlyKeysOfNearMeaningAreSuggested) {
    EXPECT_THAT(set_refusal("train.patience=3"), EndsWith("a run does not stop early; schedule.patience is for the "
                                                          "schedule plateau"));
    EXPECT_THAT(refusal_in("schedule", "patiense = 3"), EndsWith("did you mean \"patience\"?"));
    EXPECT_THAT(set_refusal("train.step=3"), HasSubstr("known in train: epochs"));  // not model.stem
    EXPECT_THAT(set_refusal("train.name=x"),
                EndsWith("did you mean \"model.name\" or \"optimizer.name\" or \"schedule.name\"?"));
    EXPECT_THAT(set_refusal("train.milestone=[3]"), EndsWith("did you mean \"schedule.milestones\"?"));
}

TEST(RecipeErrors, AMistypedPathOfARecipeNamesTheNearest) {
    const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "stoker_recipe_errors_test";
    std::filesystem::create_directories(folder);
    std::ofstream(folder / "digits.toml") << "data.train = \"x\"\n";
    EXPECT_THAT([&] { read_recipe((folder / "digit.toml").string(), {}); },
                ThrowsMessage<IoError>(EndsWith("did you mean \"" + (folder / "digits.toml").string() + "\"?")));
    EXPECT_THAT([&] { read_recipe((folder / "other").string(), {}); },
                ThrowsMessage<IoError>(EndsWith("it does not exist")));
    std::filesystem::remove_all(folder);
}

TEST(RecipeErrors, TheFirstInTheFileIsNamed) {
    EXPECT_THAT(refusal("[train]\nepochs = 0\n[data]\nbatch_size = 0"), StartsWith("[r.toml:2: train.epochs]"));
}

TEST(RecipeErrors, SyntaxNamesTheLine) {
    EXPECT_THAT(refusal("[data]\ntrain = \"x\"\nbatch_size = = 3"),
                StartsWith("[r.toml:3] expected TOML, got text that is not: "));
    EXPECT_THAT(refusal("[data]\ntrain = \"x\"\ntrain = \"y\""), StartsWith("[r.toml:3] expected TOML"));
    EXPECT_THAT(refusal("seed = 9223372036854775808"), StartsWith("[r.toml:1] expected TOML"));
    EXPECT_THAT(refusal("data.train = \"\xff\""), StartsWith("[r.toml:1] expected TOML"));
    EXPECT_THAT(refusal("seed = 1\n[= 2"), StartsWith("[r.toml:2] expected TOML"));
}

TEST(RecipeErrors, WrongTypes) {
    EXPECT_EQ(refusal_in("data", "batch_size = \"64\""),
              "[r.toml:3: data.batch_size] expected an integer from 1 to 1073741824, got \"64\"");
    EXPECT_THAT(refusal_in("data", "batch_size = 64.0"), HasSubstr("got 64.0"));
    EXPECT_THAT(refusal_in("data", "shuffle = 1"), HasSubstr("expected true or false, got 1"));
    EXPECT_THAT(refusal_in("data", "shuffle = 2024-01-01"), HasSubstr("got a date"));
    EXPECT_THAT(refusal_in("optimizer", "lr = \"1e-3\""), HasSubstr("expected a number above 0, got \"1e-3\""));
    EXPECT_THAT(refusal_in("optimizer", "name = [\"adam\"]"), HasSubstr("got an array"));
    EXPECT_THAT(refusal_in("model", "hidden = 128"), HasSubstr("got 128"));
    EXPECT_THAT(refusal_in("model", "hidden = [128, 0]"), HasSubstr("got 0"));
    EXPECT_EQ(refusal("data = 3"), "[r.toml:1: data] expected a table, got 3");
    EXPECT_THAT(refusal("[[data]]\ntrain = \"x\""), HasSubstr("expected a table, got an array"));
    EXPECT_THAT(refusal("[seed]\nx = 1"), HasSubstr("got a table"));
}

TEST(RecipeErrors, ImpossibleValues) {
    const std::vector<std::pair<std::string, std::string>> cases = {
        {"data", "batch_size = 0"},
        {"data", "batch_size = -1"},
        {"data", "workers = 1025"},
        {"data", "workers = -1"},
        {"data", "workers = \"some\""},
        {"data", "prefetch = 0"},
        {"data", "prefetch = 1025"},
        {"data", "cache = \"disk2\""},
        {"data", "cache_bytes = -1"},
        {"data", "cache_bytes = \"4 gigs\""},
        {"data", "cache_bytes = \"9999999999TiB\""},
        {"data", "val = \"0%\""},
        {"data", "val = \"100%\""},
        {"data", "val = \"-5%\""},
        {"data", "val = \"ten%\""},
        {"data", "val = \"a\\u0000b\""},
        {"model", "classes = 0"},
        {"model", "name = \"resnet19\""},
        {"optimizer", "lr = 0"},
        {"optimizer", "lr = -0.1"},
        {"optimizer", "lr = inf"},
        {"optimizer", "lr = nan"},
        {"optimizer", "momentum = 1"},
        {"optimizer", "beta2 = 1.0"},
        {"optimizer", "eps = -1e-8"},
        {"optimizer", "weight_decay = -1"},
        {"schedule", "name = \"cosinus\""},
        {"schedule", "pct_start = 0"},
        {"schedule", "pct_start = 1"},
        {"schedule", "div_factor = 0"},
        {"train", "epochs = 0"},
        {"train", "threads = 0"},
        {"train", "precision = \"fp8\""},
        {"train", "checkpoint_every = \"0 steps\""},
        {"train", "checkpoint_every = \"epoch\""},
        {"train", "checkpoint_every = 1"},
    };
    for (const auto& [table, line] : cases) {
        const std::string key = table + "." + line.substr(0, line.find(' '));
        EXPECT_THAT(refusal_in(table, line), StartsWith("[r.toml:3: " + key + "] expected ")) << line;
    }
    for (const char* device : {"gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:100", "CPU", ""}) {
        EXPECT_THAT(refusal("device = \"" + std::string(device) + "\""), StartsWith("[r.toml:1: device]")) << device;
    }
    EXPECT_THAT(refusal("seed = -1"), StartsWith("[r.toml:1: seed] expected an integer of at least 0, got -1"));
}

TEST(RecipeErrors, EnumerationsListWhatIsAllowed) {
    EXPECT_EQ(refusal_in("optimizer", "name = \"adamm\""),
              "[r.toml:3: optimizer.name] expected \"sgd\", \"adam\" or \"adamw\", got \"adamm\"");
}

TEST(RecipeErrors, TrainIsRequired) {
    EXPECT_EQ(refusal("seed = 1"), "[r.toml: data.train] expected a data set, got nothing; set train in [data]");
    EXPECT_THAT(refusal("data.train = \"\""), StartsWith("[r.toml:1: data.train] expected a data set, got \"\""));
}

TEST(RecipeErrors, NesterovNeedsMomentum) {
    EXPECT_THAT(refusal_in("optimizer", "nesterov = true\nname = \"sgd\""),
                StartsWith("[r.toml:3: optimizer.nesterov] expected a momentum above 0"));
    EXPECT_EQ(refusal_in("optimizer", "nesterov = true\nname = \"sgd\"\nmomentum = 0.9"), "accepted");
    EXPECT_THAT(refusal("data.train = \"x\"", {"optimizer.name=sgd", "optimizer.nesterov=true"}),
                StartsWith("[--set optimizer.nesterov]"));
}

TEST(RecipeErrors, FullShardsDivideAWholeModel) {
    const std::string full = "shard = \"full\"\n";
    EXPECT_EQ(refusal_in("train", full + "mesh = {dp = 2}"), "accepted");
    for (const char* way : {"tp", "pp"}) {
        EXPECT_THAT(
            refusal_in("train", full + "mesh = {" + way + " = 2}"),
            StartsWith("[r.toml:3: train.shard] expected none or optimizer where train.mesh divides the model"));
    }
}

TEST(RecipeErrors, ADeviceDecodesExactColourImages) {
    const std::string device = "decode_on = \"device\"\n";
    EXPECT_EQ(refusal_in("data", device), "accepted");
    EXPECT_THAT(refusal_in("data", device + "decode = \"fast\""),
                StartsWith("[r.toml:4: data.decode] expected \"exact\" with data.decode_on = \"device\""));
    EXPECT_THAT(refusal_in("data", device + "channels = 1"), StartsWith("[r.toml:4: data.channels] expected 3"));
    EXPECT_THAT(refusal_in("data", device + "cache = \"device\""), StartsWith("[r.toml:4: data.cache] expected none"));
    EXPECT_EQ(refusal_in("data", "decode_on = \"cpu\"\ndecode = \"fast\""), "accepted");
}

TEST(RecipeErrors, OpsNameTheEntry) {
    EXPECT_THAT(refusal_in("data", "train_ops = 3"), StartsWith("[r.toml:3: data.train_ops] expected an array"));
    EXPECT_THAT(refusal_in("data", "train_ops = [\n{op = \"a\"},\n\"b\"]"),
                StartsWith("[r.toml:5: data.train_ops[1]] expected a table such as"));
    EXPECT_THAT(refusal_in("data", "val_ops = [{size = 3}]"),
                StartsWith("[r.toml:3: data.val_ops[0]] expected a table such as"));
    EXPECT_THAT(refusal_in("data", "val_ops = [{resize = {size = 3}}]"),
                EndsWith("got a table without \"op\"; write {op = \"resize\", ...}"));
    EXPECT_THAT(refusal_in("data", "val_ops = [{op = 3}]"), StartsWith("[r.toml:3: data.val_ops[0].op]"));
    EXPECT_THAT(refusal_in("data", "val_ops = [{op = \"\"}]"), StartsWith("[r.toml:3: data.val_ops[0].op]"));
    for (const char* option : {"[1, \"a\"]", "[[1]]", "{a = 1}", "inf", "nan", "9007199254740993", "2024-01-01"}) {
        EXPECT_THAT(refusal_in("data", "val_ops = [{op = \"a\", x = " + std::string(option) + "}]"),
                    StartsWith("[r.toml:3: data.val_ops[0].x] expected true or false, a number"))
            << option;
    }
}

TEST(RecipeErrors, SetsAreNamed) {
    EXPECT_EQ(set_refusal("data.batch_sise=3"),
              "[--set data.batch_sise] expected a known key, got \"data.batch_sise\"; did you mean "
              "\"data.batch_size\"?");
    EXPECT_EQ(set_refusal("model=mlp"),
              "[--set model] expected a key of [model], got the table itself; for example --set model.name=VALUE");
    EXPECT_THAT(set_refusal("batch_size=3"), HasSubstr("did you mean \"data.batch_size\"?"));
    EXPECT_THAT(set_refusal("optimiser.lr=3"), HasSubstr("did you mean \"optimizer.lr\"?"));
    EXPECT_THAT(set_refusal("data=3"), StartsWith("[--set data] expected a key of [data]"));
    EXPECT_THAT(set_refusal("data.train_ops[0].size=3"), StartsWith("[--set data.train_ops[0].size] expected a known"));
    EXPECT_EQ(set_refusal("data.batch_size"),
              "[--set data.batch_size] expected key=value, got \"data.batch_size\"; for example data.batch_size=128");
    EXPECT_THAT(set_refusal("=3"), StartsWith("[--set ] expected a known key"));
    EXPECT_EQ(set_refusal("data.batch_size=zero"),
              "[--set data.batch_size] expected an integer from 1 to 1073741824, got \"zero\"");
    EXPECT_THAT(set_refusal("data.batch_size=3\ndata.workers=1"), StartsWith("[--set data.batch_size]"));
    EXPECT_THAT(set_refusal("data.batch_size="), HasSubstr("got \"\""));
    EXPECT_THAT(set_refusal("model.name=resnet19"), StartsWith("[--set model.name] expected \"mlp\", "));
    EXPECT_THAT(set_refusal("data.train_ops=[{op=resize}]"), StartsWith("[--set data.train_ops] expected TOML"));
    EXPECT_THAT(set_refusal("data.train_ops=[{size=3}]"), StartsWith("[--set data.train_ops[0]] expected a table"));
    EXPECT_THAT(set_refusal("data.train=\"x"), StartsWith("[--set data.train] expected TOML"));
    EXPECT_THAT(set_refusal("data.train=\xff\xfe"), StartsWith("[--set data.train] expected TOML"));
}

TEST(RecipeErrors, NoTextExhaustsTheStack) {
    std::string deep;
    for (int i = 0; i < 30'000; ++i) {
        deep += "a.";
    }
    EXPECT_THAT(refusal(deep + "a = 1"), HasSubstr("dots"));
    EXPECT_THAT(refusal("[" + deep + "a]"), HasSubstr("dots"));
    EXPECT_THAT(refusal(deep.substr(0, 2000) + "a = 1"), HasSubstr("levels of tables"));
    EXPECT_THAT(refusal("a = " + std::string(60'000, '[')), StartsWith("[r.toml:1]"));
    EXPECT_THAT(refusal("a = " + std::string(20, '[') + std::string(20, ']')), HasSubstr("levels of tables"));
    EXPECT_THAT(refusal(std::string(100'000, ' ')), HasSubstr("bytes"));
    EXPECT_THAT(set_refusal("data.train_ops=" + std::string(60'000, '[')), StartsWith("[--set data.train_ops]"));
}

TEST(RecipeErrors, StayOnOneLine) {
    for (const std::string& text : {refusal("\"a\\nb\" = 1"), set_refusal("a\nb=1"), refusal("device = \"a\\nb\"")}) {
        EXPECT_EQ(text.find('\n'), std::string::npos) << text;
    }
}

}  // namespace
}  // namespace stoker
