#include "stoker/formats/arrow/hub_files.h"

#include <gtest/gtest.h>

#include "stoker/base/error.h"
#include "stoker/formats/arrow/hub_card.h"
#include "stoker/formats/arrow/hub_features.h"

namespace stoker {
namespace {

using Names = std::vector<std::string>;

HubListing listing(Names names, const std::string& text = "") {
    return {.names = std::move(names), .read_text = [text](const std::string&) { return text; }};
}

TEST(HubFiles, SplitsByTheNamesOfFiles) {
    EXPECT_EQ(split_of_name("data/train-00000-of-00005.parquet"), "train");
    EXPECT_EQ(split_of_name("dev.parquet"), "validation");
    EXPECT_EQ(split_of_name("a/test/train-0.parquet"), "test");
    EXPECT_EQ(split_of_name("strain.parquet"), "");
    EXPECT_EQ(split_of_name("imagenet-eval_2.parquet"), "test");
    const HubListing all = listing({"b/train-1.parquet", "b/train-0.parquet", "b/test-0.parquet", "README.txt"});
    EXPECT_EQ(hub_split_files(all, Split::train), (Names{"b/train-0.parquet", "b/train-1.parquet"}));
    EXPECT_EQ(hub_split_files(all, Split::test), Names{"b/test-0.parquet"});
    const HubListing unnamed = listing({"1.parquet", "0.parquet"});
    EXPECT_EQ(hub_split_files(unnamed, Split::train), (Names{"0.parquet", "1.parquet"}));
    EXPECT_TRUE(hub_split_files(unnamed, Split::test).empty());
}

TEST(HubFiles, ValidationAndTest) {
    const HubListing all = listing({"train.parquet", "test.parquet", "valid.parquet"});
    EXPECT_EQ(hub_split_files(all, Split::test, true), Names{"valid.parquet"});
    EXPECT_EQ(hub_split_files(all, Split::test), Names{"test.parquet"});
    const HubListing saved = listing({"dataset_dict.json", "training/state.json", "training/a.arrow", "eval/state.json",
                                      "eval/a.arrow"},
                                     R"({"_data_files": [{"filename": "a.arrow"}]})");
    EXPECT_EQ(hub_split_files(saved, Split::train), Names{"training/a.arrow"});
    EXPECT_EQ(hub_split_files(saved, Split::test, true), Names{"eval/a.arrow"});
}

TEST(HubFiles, NamesOfRepositories) {
    for (const char* name : {"hf://datasets/me/mine", "hf://datasets/me/my.data", "hf://datasets/me/mine@refs/pr/1",
                             "hf://datasets/me/mine/data", "s3://bucket/folder/"}) {
        EXPECT_TRUE(is_hub_repository(name)) << name;
    }
    for (const char* name : {"hf://datasets/me/mine/x.parquet", "hf://datasets/mine/x.parquet", "s3://bucket/folder",
                             "hf://datasets/me/mine/*.parquet", "https://host/folder/", "hf://datasets/me/x.tar"}) {
        EXPECT_FALSE(is_hub_repository(name)) << name;
    }
}

constexpr const char* kCard = R"(---
license: mit
configs:
  - config_name: small
    data_files:
      - split: train
        path: small/*.parquet
  - config_name: "large"
    default: true
    data_files:
      - split: train
        path:
          - "large/a-*.parquet"
          - 'large/b.parquet'
      - split: test
        path: "**/t.parquet"
dataset_info:
  features: x
---
# A card
)";

TEST(HubCard, ConfigurationsAndPatterns) {
    const auto configs = read_hub_card(kCard);
    ASSERT_EQ(configs.size(), 2U);
    EXPECT_EQ(configs[0].name, "small");
    EXPECT_FALSE(configs[0].is_default);
    EXPECT_EQ(configs[1].name, "large");
    EXPECT_TRUE(configs[1].is_default);
    ASSERT_EQ(configs[1].files.size(), 2U);
    EXPECT_EQ(configs[1].files[0].patterns, (Names{"large/a-*.parquet", "large/b.parquet"}));
    EXPECT_EQ(configs[1].files[1].split, "test");
    EXPECT_TRUE(read_hub_card("# configs:\n").empty());
    EXPECT_TRUE(read_hub_card("---\nconfigs:\n- config_name: a\n").empty());  // without an end
}

TEST(HubCard, NamesTheFiles) {
    const HubListing all = listing({"README.md", "small/a-0.parquet", "large/b.parquet", "large/a-1.parquet",
                                    "large/a-0.parquet", "x/y/t.parquet", "large/a-0.txt"},
                                   kCard);
    EXPECT_EQ(hub_split_files(all, Split::train), (Names{"large/a-0.parquet", "large/a-1.parquet", "large/b.parquet"}));
    EXPECT_EQ(hub_split_files(all, Split::test), Names{"x/y/t.parquet"});
}

TEST(HubFeatures, OfNestedColumns) {
    const auto found = read_hub_features(R"({"info": {"features": {
        "image": {"_type": "Image"},
        "label": {"names": ["a", "b"], "_type": "ClassLabel"},
        "objects": {"bbox": {"feature": {"dtype": "float32", "_type": "Value"}, "length": 4, "_type": "Sequence"},
                    "kind": [{"names": ["c"], "_type": "ClassLabel"}]}}}})");
    EXPECT_TRUE(found.at("image").is_media());
    EXPECT_EQ(found.at("label").names, (Names{"a", "b"}));
    EXPECT_EQ(found.at("objects.bbox").type, "Value");
    EXPECT_EQ(found.at("objects.kind").names, Names{"c"});
    EXPECT_TRUE(read_hub_features("").empty());
    EXPECT_TRUE(read_hub_features("{}").empty());
    EXPECT_THROW(read_hub_features("[1]"), DataError);
    EXPECT_THROW(read_hub_features("{"), DataError);
}

}  // namespace
}  // namespace stoker
