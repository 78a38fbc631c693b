// The loader's state as JSON: written and read back; everything else is refused.
#include "stoker/pipeline/loader_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>
#include <limits>
#include <nlohmann/json.hpp>

#include "stoker/base/error.h"

namespace stoker {
namespace {

using ::testing::HasSubstr;

LoaderState sample_state() {
    return {.epoch = 3,
            .batch = 17,
            .bad_samples = 2,
            .size = 60'000,
            .keys = 0xabcde,
            .identity = 0xf0,
            .batch_size = 256,
            .seed = std::numeric_limits<std::uint64_t>::max() - 1,
            .order = "weighted, 3 groups",
            .drop_last = true};
}

void expect_refused(const std::string& text, const std::string& part) {
    try {
        loader_state_from_json(text);
        ADD_FAILURE() << "accepted " << text;
    } catch (const InvalidArgument& error) {
        EXPECT_THAT(error.what(), HasSubstr("[loader state]"));
        EXPECT_THAT(error.what(), HasSubstr(part));
    }
}

std::string with(const std::string& key, const nlohmann::json& value) {
    auto json = nlohmann::json::parse(to_json(sample_state()));
    json[key] = value;
    return json.dump();
}

TEST(LoaderState, ThereAndBack) {
    EXPECT_EQ(loader_state_from_json(to_json(sample_state())), sample_state());
    EXPECT_EQ(loader_state_from_json(to_json({})), LoaderState{});
}

TEST(LoaderState, KeepsItsNames) {
    EXPECT_EQ(
        to_json(sample_state()),
        R"({"version":3,"epoch":3,"batch":17,"bad_samples":2,"size":60000,"keys":"00000000000abcde",)"
        R"("identity":"00000000000000f0","batch_size":256,"seed":"18446744073709551614","order":"weighted, 3 groups","drop_last":true})");
}

class NamedDataset : public Dataset {
  public:
    explicit NamedDataset(std::vector<std::string> keys) : keys_(std::move(keys)) {}
    std::int64_t size() const override { return static_cast<std::int64_t>(keys_.size()); }
    void read(std::int64_t /*index*/, Sample& /*sample*/) const override {}
    std::string key(std::int64_t index) const override { return keys_[static_cast<std::size_t>(index)]; }

  private:
    std::vector<std::string> keys_;
};

TEST(LoaderState, KnowsOtherSamplesByTheirKeys) {
    const std::uint64_t hash = keys_hash(NamedDataset({"a", "b", "c"}));
    EXPECT_EQ(keys_hash(NamedDataset({"a", "b", "c"})), hash);
    EXPECT_NE(keys_hash(NamedDataset({"a", "b", "d"})), hash);
    EXPECT_NE(keys_hash(NamedDataset({"b", "a", "c"})), hash);
    EXPECT_NE(keys_hash(NamedDataset({"a", "b"})), hash);
    class Damaged final : public NamedDataset {
      public:
        using NamedDataset::NamedDataset;
        std::string key(std::int64_t /*index*/) const override {
            throw DataError({}, {.where = "key", .expected = "a key", .got = "none"});
        }
    };
    EXPECT_NO_THROW(keys_hash(Damaged({"a", "b"})));
    try {
        require_same_sampler({.keys = 2, .order = ""}, {.keys = 3, .order = ""});
        ADD_FAILURE();
    } catch (const InvalidArgument& error) {
        EXPECT_THAT(error.what(), HasSubstr("[data.train] expected the samples that the run began with"));
    }
}

// 2,000 samples of two classes.
class LabelledDataset : public NamedDataset {
  public:
    explicit LabelledDataset(std::int64_t renamed = -1, std::int64_t relabelled = -1)
        : NamedDataset(std::vector<std::string>(2000)), renamed_(renamed), relabelled_(relabelled) {}
    std::string key(std::int64_t index) const override {
        return fmt::format("cat/{:04}{}", index, index == renamed_ ? "b" : "");
    }
    std::optional<std::int64_t> label(std::int64_t index) const override {
        return index == bad ? std::nullopt : std::optional(index / 1000 ^ (index == relabelled_ ? 1 : 0));
    }

    std::int64_t bad = -1;  // a sample whose label cannot be read

  private:
    std::int64_t renamed_;
    std::int64_t relabelled_;
};

TEST(LoaderState, KnowsOtherSamplesByEveryKeyAndLabel) {
    const std::uint64_t identity = data_identity(LabelledDataset());
    EXPECT_NE(identity, 0u);
    EXPECT_EQ(data_identity(LabelledDataset()), identity);
    for (const std::int64_t index : {0, 1, 17, 998, 1999}) {
        EXPECT_NE(data_identity(LabelledDataset(index)), identity) << index;
        EXPECT_NE(data_identity(LabelledDataset(-1, index)), identity) << index;
    }
    for (const std::int64_t bad : {0, 31, 32, 1999}) {
        LabelledDataset damaged;
        LabelledDataset other(-1, 17);
        damaged.bad = other.bad = bad;
        EXPECT_NE(data_identity(damaged), 0u) << bad;
        EXPECT_NE(data_identity(damaged), identity) << bad;
        EXPECT_NE(data_identity(damaged), data_identity(other)) << bad;
    }
    EXPECT_EQ(data_identity(NamedDataset({"a", "b"})), 0u) << "labels are not known";
    const LoaderState old{.keys = 2, .order = ""};  // as written before there was an identity
    EXPECT_NO_THROW(require_same_sampler({.keys = 2, .identity = 5, .order = ""}, old));
    EXPECT_NO_THROW(
        require_same_sampler({.keys = 2, .identity = 5, .order = ""}, {.keys = 2, .identity = 5, .order = ""}));
    EXPECT_THAT(
        [&] { require_same_sampler({.keys = 2, .identity = 5, .order = ""}, {.keys = 2, .identity = 6, .order = ""}); },
        ::testing::ThrowsMessage<InvalidArgument>(HasSubstr("some with other keys or labels")));
}

TEST(LoaderState, RefusesWhatIsNone) {
    expect_refused("", "a loader's state");
    expect_refused("{", "a loader's state");
    expect_refused("[]", "a loader's state");
    expect_refused("{}", "version");
    for (const int version : {0, 1, 2, 4}) {
        expect_refused(with("version", version), fmt::format("expected version 3, got version {}", version));
    }
    expect_refused(with("epoch", "three"), "a loader's state");
    for (const char* key :
         {"epoch", "batch", "size", "keys", "batch_size", "seed", "order", "bad_samples", "drop_last"}) {
        auto json = nlohmann::json::parse(to_json(sample_state()));
        json.erase(key);
        expect_refused(json.dump(), key);
    }
}

TEST(LoaderState, RefusesASeedThatIsNoNumber) {
    for (const char* seed : {"", "x", "-1", " 1", "1x", "18446744073709551616"}) {
        expect_refused(with("seed", seed), "a loader's state");
    }
}

}  // namespace
}  // namespace stoker
