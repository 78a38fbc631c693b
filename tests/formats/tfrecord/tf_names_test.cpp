// Names of TFRecord shards, and folders with several splits.
#include "stoker/formats/tfrecord/tf_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "support/temp_dir.h"

namespace stoker {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using namespace stoker::testing;

TEST(TfNames, ShardsAreRecognised) {
    for (const char* name : {"x.tfrecord",
                             "x.tfrecords",
                             "x.TFRECORD",
                             "x.tfrec",
                             "00-192x192-798.tfrec",
                             "x.tfrecord.gz",
                             "x.tfrecord-00000-of-01024",
                             "train-00000-of-00010",
                             "a/b.c/train-00000-of-00010",
                             "x-00000-of-00010.tfrecord",
                             "x-*.tfrecord",
                             "x.tfrecord-*",
                             "x.tfrecord*",
                             "train-????"
                             "?-of-00010",
                             "train-*-of-00010",
                             "train-{00000..00009}-of-00010",
                             "x.tfrecord-{00000..00009}-of-00010",
                             "x-{0..9}.tfrecord",
                             "s3://bucket/train-00000-of-00010",
                             "https://host/x.tfrecord?token=a.b"}) {
        EXPECT_TRUE(is_tfrecord_spec(name)) << name;
    }
    for (const char* name : {"model-00001-of-00002.safetensors", "model.ckpt.data-00000-of-00001",
                             "x.array_record-00000-of-00010", "x.tfrecord.index", "x.tfrecordx", "page-1-of-2",
                             "train-of-00010", "-00000-of-00010", ".tfrecord", "x.tar", "x", "", "x-{0..9.tfrecord"}) {
        EXPECT_FALSE(is_tfrecord_spec(name)) << name;
    }
}

TEST(TfNames, SetsOfShards) {
    EXPECT_EQ(tfrecord_set_name("mnist-train.tfrecord-00000-of-00001"), "mnist-train");
    EXPECT_EQ(tfrecord_set_name("train-00000-of-01024"), "train");
    EXPECT_EQ(tfrecord_set_name("train-00000-of-01024.tfrecord"), "train");
    EXPECT_EQ(tfrecord_set_name("x.tfrecord"), "x");
    EXPECT_EQ(tfrecord_set_name("x-000001.tfrecord.gz"), "x-000001");
}

class TfFolder : public ::testing::Test {
  protected:
    void touch(const std::string& name) const { std::ofstream(dir_ / name) << ""; }
    std::vector<std::string> shards(Split split) const {
        std::vector<std::string> names;
        for (const std::string& shard : tfrecord_shards(folder(), split).names) {
            names.push_back(std::filesystem::path(shard).filename());
        }
        return names;
    }
    std::string folder() const { return dir_.path().string(); }

    TempDir dir_;
};

TEST_F(TfFolder, SplitsOfTensorFlowDatasets) {
    for (const char* name : {"x-train.tfrecord-00001-of-00002", "x-train.tfrecord-00000-of-00002", "features.json",
                             "x-test.tfrecord-00000-of-00001", "x-validation.tfrecord-00000-of-00001",
                             "x-extra.tfrecord-00000-of-00001", ".hidden.tfrecord"}) {
        touch(name);
    }
    EXPECT_TRUE(is_tfrecord_folder(folder()));
    EXPECT_TRUE(tfrecord_has_splits(folder()));
    EXPECT_THAT(shards(Split::train),
                ElementsAre("x-train.tfrecord-00000-of-00002", "x-train.tfrecord-00001-of-00002"));
    EXPECT_THAT(shards(Split::test), ElementsAre("x-validation.tfrecord-00000-of-00001"));
    const auto left_out = tfrecord_shards(folder(), Split::train).left_out;
    EXPECT_THAT(left_out, ElementsAre((dir_ / "x-extra.tfrecord-00000-of-00001").string(),
                                      (dir_ / "x-test.tfrecord-00000-of-00001").string()));
}

TEST_F(TfFolder, OneSplitIsAllShards) {
    touch("train-00000-of-00002");
    touch("other-00000-of-00002");
    EXPECT_FALSE(tfrecord_has_splits(folder()));
    EXPECT_THAT(shards(Split::test), ElementsAre("other-00000-of-00002", "train-00000-of-00002"));
    EXPECT_THAT(tfrecord_shards(folder(), Split::train).left_out, IsEmpty());
    EXPECT_THAT(tfrecord_shards((dir_ / "train-*").string(), Split::train).names,
                ElementsAre((dir_ / "train-00000-of-00002").string()));
}

TEST_F(TfFolder, FoldersOfImagesAreNotShards) {
    touch("x.tfrecord");
    std::filesystem::create_directory(dir_ / "cat");
    EXPECT_TRUE(is_tfrecord_folder(folder()));
    touch("cat/1.jpg");
    EXPECT_FALSE(is_tfrecord_folder(folder()));
}

}  // namespace
}  // namespace stoker
