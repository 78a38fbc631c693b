// HDF5 and npz: samples that do not fit one array are refused; keys and labels are stored as arrays.

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <atomic>
#include <gtest/gtest.h>

#include "pack/support.h"
#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/formats/open.h"
#include "stoker/pack/pack.h"
#include "support/temp_dir.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;
using namespace stoker::testing;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

struct One {
    std::string key;
    std::int64_t label = -1;
    int height = 2;
    int width = 3;
    int channels = 1;
};

class Pixels final : public Dataset {
  public:
    explicit Pixels(std::vector<One> samples) : samples_(std::move(samples)) {}
    std::int64_t size() const override { return static_cast<std::int64_t>(samples_.size()); }
    std::string key(std::int64_t index) const override { return samples_[static_cast<std::size_t>(index)].key; }
    void read(std::int64_t index, Sample& sample) const override {
        const One& one = samples_[static_cast<std::size_t>(index)];
        sample.height = one.height;
        sample.width = one.width;
        sample.channels = one.channels;
        sample.label = one.label;
        sample.encoded = false;
        sample.storage.resize(static_cast<std::size_t>(one.height * one.width * one.channels));
        std::ranges::fill(sample.storage.bytes(), static_cast<std::byte>(index + 1));
        sample.bytes = sample.storage.bytes();
    }

  private:
    std::vector<One> samples_;
};

TEST(TableTarget, PixelsOfSeveralSizesAreRefusedAtTheFirstThatDiffers) {
    const TempDir dir;
    const Pixels several({{"a"}, {"b"}, {"c", 0, 4, 3}, {"d"}});
    for (const char* name : {"x.h5", "x.npz"}) {
        EXPECT_THAT([&] { pack(several, dir / name, {.shard_size = 1}); },
                    ThrowsMessage<DataError>(AllOf(HasSubstr(": c"), HasSubstr("\"a\": 2 x 3 x 1"),
                                                   HasSubstr("got 4 x 3 x 1; x.tar, x.lmdb and x.stk hold"))));
        const PackResult rest = pack(several, dir / name, {.shard_size = 1, .skip_bad = true});
        EXPECT_EQ(rest.resumed_samples, 1) << name;  // the image of another size costs only the open part, of b
        EXPECT_EQ(rest.samples, 3);
        ASSERT_EQ(rest.skipped.size(), 1U);
        EXPECT_EQ(rest.skipped[0].key, "c");
        EXPECT_THAT(rest.skipped[0].reason, AllOf(HasSubstr("(sample 2)"), HasSubstr("4 x 3 x 1")));
        EXPECT_EQ(open_dataset((dir / name).string(), Split::train)->key(2), "d");
    }
    for (const char* name : {"x.tar", "x.lmdb"}) {
        const PackResult result = pack(several, dir / name, {});
        EXPECT_EQ(all_of(*open_dataset(result.path, Split::train)), all_of(several));
    }
}

TEST(TableTarget, NpzRefusesEncodedImages) {
    const TempDir dir;
    make_folder(dir / "images");
    const auto folder = open_dataset((dir / "images").string(), Split::train);
    EXPECT_THAT([&] { pack(*folder, dir / "x.npz", {}); },
                ThrowsMessage<DataError>(AllOf(HasSubstr("raw pixels, all of one size"), HasSubstr("--codec raw"))));
    EXPECT_THAT([&] { pack(*folder, dir / "x.npz", {.transcode = {.codec = PackCodec::raw}}); },
                ThrowsMessage<DataError>(AllOf(HasSubstr("c0/0.jpg"), HasSubstr("c0/1.jpg"))));
    fs::remove_all(dir / "images");
    EXPECT_TRUE(fs::is_empty(dir.path()));
}

TEST(TableTarget, LabelsAreLeftOutWhereNoSampleHasOne) {
    const TempDir dir;
    for (const std::int64_t label : {-1, 3}) {
        const Pixels dataset({{"ä/1"}, {"日本", label}, {"x"}});
        for (const char* name : {"x.h5", "x.npz"}) {
            const fs::path path = dir / fmt::format("{}{}", label + 1, name);
            pack(dataset, path, {});
            EXPECT_EQ(all_of(*open_dataset(path.string(), Split::train)), all_of(dataset)) << path;
            EXPECT_EQ(read_text(path).find("labels") != std::string::npos, label >= 0) << path;
        }
    }
}

TEST(TableTarget, KeysAreText) {
    const TempDir dir;
    for (const std::string& key : {std::string("\xff"), std::string("a\0b", 3), std::string("\xed\xa0\x80")}) {
        for (const char* name : {"x.h5", "x.npz", "x.lmdb"}) {
            EXPECT_THAT([&] { pack(Pixels({{key}}), dir / name, {}); },
                        ThrowsMessage<DataError>(HasSubstr("keys of UTF-8 text without a NUL")))
                << name;
        }
        const Pixels dataset({{key}});
        EXPECT_EQ(all_of(*open_dataset(pack(dataset, dir / "x.tar", {}).path, Split::train)), all_of(dataset));
        for (const char* name : {"x.tar", "x.tar.pack.json"}) {
            fs::remove(dir / name);
        }
    }
}

class Counted final : public Dataset {
  public:
    explicit Counted(Pixels dataset) : dataset_(std::move(dataset)) {}
    std::int64_t size() const override { return dataset_.size(); }
    std::string key(std::int64_t index) const override { return dataset_.key(index); }
    void read(std::int64_t index, Sample& sample) const override {
        ++reads;
        dataset_.read(index, sample);
    }
    mutable std::atomic<int> reads = 0;

  private:
    Pixels dataset_;
};

TEST(TableTarget, KeysAreCheckedBeforeTheFirstSample) {
    const TempDir dir;
    for (const char* name : {"x.h5", "x.npz", "x.lmdb"}) {
        const Counted dataset(Pixels({{"a"}, {"b"}, {"\xff"}}));
        EXPECT_THAT(
            [&] { pack(dataset, dir / name, {}); },
            ThrowsMessage<DataError>(AllOf(HasSubstr(name), HasSubstr("(sample 2)"), HasSubstr("keys of UTF-8"))));
        EXPECT_EQ(dataset.reads, 0);
        EXPECT_TRUE(fs::is_empty(dir.path()));
        const PackResult rest = pack(dataset, dir / name, {.skip_bad = true});
        EXPECT_EQ(rest.samples, 2);
        ASSERT_EQ(rest.skipped.size(), 1U);
        fs::remove_all(dir / name);
        fs::remove(dir / fmt::format("{}-lock", name));
        fs::remove(dir / fmt::format("{}.pack.json", name));
    }
}

TEST(TableTarget, EqualKeysAreRefusedBeforeTheFirstSample) {
    const TempDir dir;
    for (const char* name : {"x.h5", "x.npz", "x.tar", "x-{000000..}.tar"}) {
        const Counted dataset(Pixels({{"a"}, {"b"}, {"a"}}));
        EXPECT_THAT([&] { pack(dataset, dir / name, {.skip_bad = true}); },
                    ThrowsMessage<DataError>(AllOf(HasSubstr("a (sample 2)"), HasSubstr("got the key of sample 0"))));
        EXPECT_EQ(dataset.reads, 0);
        EXPECT_TRUE(fs::is_empty(dir.path()));
    }
    const Pixels dataset({{"a"}, {"b"}, {"a"}});
    EXPECT_EQ(pack(dataset, dir / "x.stk", {}).samples, 3);
}

class Unlabelled final : public Dataset {
  public:
    std::int64_t size() const override { return dataset_.size(); }
    std::string key(std::int64_t index) const override { return dataset_.key(index); }
    void read(std::int64_t index, Sample& sample) const override { dataset_.read(index, sample); }
    std::span<const std::string> classes() const override { return classes_; }

  private:
    Pixels dataset_{{{"a"}, {"b"}}};
    std::vector<std::string> classes_ = {"cat", "dog"};
};

TEST(TableTarget, ClassesWithoutLabelsAreKept) {
    const TempDir dir;
    const Unlabelled dataset;
    for (const char* name : {"x.h5", "x.npz", "x.tar", "x.lmdb", "x.stk"}) {
        const auto packed = open_dataset(pack(dataset, dir / name, {}).path, Split::train);
        EXPECT_TRUE(std::ranges::equal(packed->classes(), dataset.classes())) << name;
        EXPECT_EQ(all_of(*packed), all_of(dataset)) << name;
    }
}

// Spool batches of one and of several images.
TEST(TableTarget, ManySamplesAndLargeOnes) {
    const TempDir dir;
    std::vector<One> samples;
    for (int i = 0; i < 9000; ++i) {
        samples.push_back({.key = fmt::format("{:0{}}", i, 1 + i % 7), .label = i});
    }
    const Pixels small(samples);
    const Pixels large({{"a", 0, 2100, 1400, 3}, {"b", 1, 2100, 1400, 3}, {"c", 0, 2100, 1400, 3}});
    for (const char* name : {"x.h5", "x.npz"}) {
        for (const Pixels* dataset : {&small, &large}) {
            const fs::path path = dir / fmt::format("{}{}", dataset->size(), name);
            const PackResult result = pack(*dataset, path, {.shard_size = 10'000});
            EXPECT_EQ(result.samples, dataset->size());  // pack() itself verifies the contents
            EXPECT_EQ(open_dataset(path.string(), Split::train)->key(2), dataset->key(2));
        }
    }
}

}  // namespace
}  // namespace stoker
