// Damage to state.json and metrics.jsonl: refused in one line, or without effect.
#include <fmt/format.h>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/track/metrics_file.h"
#include "stoker/train/run/metrics_position.h"
#include "stoker/train/run/run_state.h"
#include "train/support.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::ElementsAre;
using testing::every;
using ::testing::HasSubstr;
using testing::live;
using testing::TempDir;
using testing::text_of;

// A run's state when it resumes, without the hash, which is last; the text of the error if the checkpoint is refused.
std::string meaning_of(const fs::path& checkpoint) {
    try {
        auto state = nlohmann::ordered_json::parse(read_checkpoint(checkpoint).state);
        state.erase(std::prev(state.end()));
        return state.dump();
    } catch (const Error& error) {
        return error.what();
    }
}

TEST(StateFile, WithoutAStepIsNotWritten) {
    const TempDir folder;
    for (const char* const state : {"", "{", "[]", "{}", R"({"step": -1})", R"({"step": "3"})", R"({"epoch": 1})"}) {
        EXPECT_THROW(write_checkpoint(folder.path(), {.model = {}, .optimizer = {}, .ema = {}, .state = state}),
                     InvalidArgument)
            << state;
        EXPECT_FALSE(fs::exists(folder / "state.json"));
    }
    write_checkpoint(folder.path(), {.model = {}, .optimizer = {}, .ema = {}, .state = R"({"step": 3})"});
    EXPECT_EQ(read_step(folder.path()), 3);
}

TEST(StateFile, EveryChangedByteIsRefusedOrHarmless) {
    const TempDir folder;
    live(every(1, true), folder / "run", 3);
    const fs::path checkpoint = folder / "run/checkpoints/3";
    const std::string good = text_of(checkpoint / "state.json");
    const std::string meaning = meaning_of(checkpoint);
    ASSERT_THAT(meaning, HasSubstr("\"step\":3"));
    std::size_t refused = 0;
    std::size_t changed = 0;
    for (std::size_t at = 0; at < good.size(); ++at) {
        for (const int mask : {1 << at % 8, 0x20}) {
            std::string bad = good;
            bad[at] = static_cast<char>(bad[at] ^ mask);
            std::ofstream(checkpoint / "state.json", std::ios::binary) << bad;
            const std::string found = meaning_of(checkpoint);
            ++changed;
            if (found != meaning) {
                ++refused;
                ASSERT_THAT(found, HasSubstr("a state.json that Stoker wrote")) << "byte " << at << " ^ " << mask;
                ASSERT_EQ(found.find('\n'), std::string::npos);
            }
        }
    }
    EXPECT_GT(refused, changed - 30) << "only the name of the hash itself may change";
}

// Reading a checkpoint writes its state again, and so does an export with the model's metadata.
TEST(StateFile, DeepJsonIsRefused) {
    const TempDir folder;
    const std::string deep = std::string(200'000, '[') + std::string(200'000, ']');
    const std::string state = R"({"step": 3, "x": )" + deep + "}";
    write_checkpoint(folder.path(), {.model = {}, .optimizer = {}, .ema = {}, .state = R"({"step": 3})"});
    std::ofstream(folder / "state.json") << state;
    EXPECT_THAT([&] { read_checkpoint(folder.path()); },
                ::testing::ThrowsMessage<DataError>(HasSubstr("or is nested too deeply")));
    EXPECT_EQ(to_json(ModelMetadata{{"classes", deep}, {"input", "[1, 2, 2]"}}),
              to_json(ModelMetadata{{"input", "[1, 2, 2]"}}));
}

TEST(StateFile, OneWithoutAHashIsRead) {
    const TempDir folder;
    live(every(1, true), folder / "run", 3);
    const fs::path file = folder / "run/checkpoints/3/state.json";
    auto state = nlohmann::ordered_json::parse(text_of(file));
    EXPECT_EQ(state.erase("self_hash"), 1u);
    state.erase("data");
    state["loader"].erase("identity");
    std::ofstream(file) << state.dump(2);
    EXPECT_EQ(live(every(1, true), folder / "run").result.resumed_from_step, 3);
}

// A run without a hash in state.json, whose length of metrics.jsonl is wrong.
TEST(MetricsEnd, ADamagedLengthKeepsWholeLinesOfTheRun) {
    const TempDir folder;
    const Recipe recipe = every(1, true);
    live(recipe, folder / "whole");
    const std::string whole = testing::metrics_of(folder / "whole");
    live(recipe, folder / "run", 10);
    const fs::path file = folder / "run/checkpoints/10/state.json";
    auto state = nlohmann::ordered_json::parse(text_of(file));
    const auto bytes = state["metrics_bytes"].get<std::int64_t>();
    state.erase("self_hash");
    fs::copy(folder / "run", folder / "kept", fs::copy_options::recursive);
    for (const std::int64_t wrong :
         {bytes - 1, bytes + 1, bytes / 2, bytes * 1000, std::int64_t{0}, std::int64_t{-7}}) {
        fs::remove_all(folder / "run");
        fs::copy(folder / "kept", folder / "run", fs::copy_options::recursive);
        std::ofstream(folder / "run/metrics.jsonl", std::ios::app) << "{\"type\":\"step\",\"step\":11}\n{\"type\":\"st";
        state["metrics_bytes"] = wrong;
        std::ofstream(file) << state.dump(2);
        EXPECT_EQ(live(recipe, folder / "run").result.resumed_from_step, 10);
        EXPECT_EQ(testing::metrics_of(folder / "run"), whole) << wrong << " and not " << bytes;
    }
}

TEST(MetricsEnd, AnEpochsLineAfterItsCheckpointIsCut) {
    const std::string steps = "{\"type\":\"step\",\"step\":1}\n{\"type\":\"step\",\"step\":2}\n";
    const std::string epoch = "{\"type\":\"epoch\",\"schema\":1,\"step\":2,\"epoch\":1}\n";
    const std::string text = steps + epoch + "{\"type\":\"step\",\"step\":3}\n";
    const auto end = [&](std::int64_t bytes, std::int64_t step, std::int64_t epochs) {
        return kept_metrics(text, {.bytes = bytes, .step = step, .epochs = epochs}).bytes;
    };
    const auto with_steps = std::ssize(steps);
    const std::int64_t with_epoch = with_steps + std::ssize(epoch);
    EXPECT_EQ(end(with_steps, 2, 0), with_steps);
    EXPECT_EQ(end(with_epoch, 2, 1), with_epoch);
    EXPECT_EQ(end(with_steps + 3, 2, 0), with_steps);
    EXPECT_EQ(end(with_steps + 3, 2, 1), with_epoch);
    EXPECT_EQ(end(0, 2, 1), with_epoch);
    EXPECT_EQ(end(0, 0, 0), 0);
    EXPECT_EQ(kept_metrics("", {.bytes = 7, .step = 1, .epochs = 0}).bytes, 0);
}

TEST(MetricsEnd, DamagedLinesAreLeftOut) {
    const std::string one = "{\"type\":\"step\",\"step\":1}\n";
    const std::string bad = "{\"type\":\"step\"<\"step\":2}\n";
    const std::string three = "{\"type\":\"step\",\"step\":3}\n";
    const std::string text = one + bad + three;
    const KeptMetrics kept = kept_metrics(text, {.bytes = std::ssize(text), .step = 3, .epochs = 0});
    ASSERT_EQ(kept.parts.size(), 2U);
    EXPECT_EQ(kept.parts[0], one);
    EXPECT_EQ(kept.parts[1], three);
    EXPECT_EQ(kept.damaged, 1);
    EXPECT_EQ(kept.last_step, 3);
    const std::string last = one + three + bad;
    EXPECT_EQ(kept_metrics(last, {.bytes = std::ssize(last), .step = 4, .epochs = 0}).bytes,
              std::ssize(one) + std::ssize(three));
}

TEST(Damage, MissingAndDamagedRecordsAreNamedAndTheRunGoesOn) {
    const TempDir folder;
    const Recipe recipe = every(1, true);
    live(recipe, folder / "kept", 10);
    const std::string whole = text_of(folder / "kept/metrics.jsonl");
    std::string flipped = whole;
    flipped[whole.find("\"type\"", whole.size() / 2) + 1] ^= 4;  // of a line in the middle
    for (const std::string& damaged : {whole.substr(0, whole.size() / 2), std::string(), flipped}) {
        fs::remove_all(folder / "run");
        fs::copy(folder / "kept", folder / "run", fs::copy_options::recursive);
        std::ofstream(folder / "run/metrics.jsonl") << damaged;
        const testing::Outcome lived = live(recipe, folder / "run");
        EXPECT_EQ(lived.result.resumed_from_step, 10);
        EXPECT_THAT(lived.warnings, ElementsAre(HasSubstr("metrics.jsonl")));
        EXPECT_NO_THROW(read_metrics(folder / "run/metrics.jsonl", MetricLines::all));
    }
}

TEST(Damage, ARunInANewFolderLacksNoRecords) {
    const TempDir folder;
    const Recipe recipe = every(1, true);
    live(recipe, folder / "run", 10);
    Trainer trainer(recipe, testing::small_data());
    std::vector<std::string> warnings;
    FitOptions options{.out = folder / "new", .resume = (folder / "run").string()};
    options.on_warning = [&](const std::string& line) { warnings.push_back(line); };
    trainer.fit(options);
    EXPECT_THAT(warnings, ::testing::IsEmpty());
}

TEST(Damage, AMissingFileOfAveragesIsDamage) {
    const TempDir folder;
    Recipe recipe = every(5, false);
    recipe.train.ema = 0.9;
    live(recipe, folder / "run", 10);
    EXPECT_EQ(damage_of(folder / "run/checkpoints/10"), "");
    fs::remove(folder / "run/checkpoints/10/ema.safetensors");
    EXPECT_THAT(damage_of(folder / "run/checkpoints/10"), HasSubstr("ema.safetensors"));
    EXPECT_EQ(live(recipe, folder / "run").result.resumed_from_step, 5);
}

TEST(Damage, AutoTakesTheNewestCheckpointThatIsWhole) {
    const TempDir folder;
    const Recipe recipe = every(5, false);
    live(recipe, folder / "run", 10);
    const fs::path newest = folder / "run/checkpoints/10";
    std::string model = text_of(newest / "model.safetensors");
    model[model.size() / 2] ^= 1;
    std::ofstream(newest / "model.safetensors", std::ios::binary) << model;
    const testing::Outcome lived = live(recipe, folder / "run");
    EXPECT_EQ(lived.result.resumed_from_step, 5);
    EXPECT_THAT(lived.warnings, Contains(HasSubstr("10.damaged")));
    EXPECT_EQ(text_of(folder / "run/checkpoints/10.damaged/model.safetensors"), model);
}

// Labels are in no file of the run, only in its identity.
class Labelled final : public Dataset {
  public:
    explicit Labelled(std::int64_t flip, std::int64_t renamed = 0) : flip_(flip), renamed_(renamed) {}
    std::int64_t size() const override { return squares_.size(); }
    void read(std::int64_t index, Sample& sample) const override {
        squares_.read(index, sample);
        sample.label = *label(index);
    }
    std::string key(std::int64_t index) const override {
        return fmt::format("{}{}", index, index < renamed_ ? "b" : "");
    }
    std::optional<std::int64_t> label(std::int64_t index) const override { return index % 2 ^ flip_; }
    std::span<const std::string> classes() const override { return squares_.classes(); }

  private:
    testing::SquareDataset squares_{100};
    std::int64_t flip_;
    std::int64_t renamed_;
};

TEST(Identity, OtherLabelsAreNotTheRunsData) {
    const TempDir folder;
    const auto fit = [&](std::int64_t flip, std::int64_t epochs) {
        Recipe recipe = every(1, true);
        recipe.train.epochs = epochs;
        Trainer trainer(recipe, {std::make_shared<Labelled>(flip), nullptr});
        return trainer.fit({.out = folder / "run", .resume = "auto"}).steps;
    };
    fit(0, 1);
    EXPECT_THAT([&] { fit(1, 2); },
                ::testing::ThrowsMessage<InvalidArgument>(HasSubstr("some with other keys or labels")));
    EXPECT_EQ(fit(0, 2), 2 * testing::kStepsAnEpoch);
}

}  // namespace
}  // namespace stoker
