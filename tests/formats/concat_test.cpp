// Several data sets as one: samples, keys, classes, shards.
#include "stoker/formats/concat.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "stoker/base/error.h"

namespace stoker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Numbers final : public Dataset {
  public:
    Numbers(std::int64_t size, std::int64_t first, std::vector<std::string> classes = {"a", "b"},
            std::vector<std::int64_t> shards = {})
        : size_(size), first_(first), classes_(std::move(classes)), shards_(std::move(shards)) {}
    std::int64_t size() const override { return size_; }
    void read(std::int64_t index, Sample& sample) const override { sample.label = first_ + index; }
    std::optional<std::int64_t> label(std::int64_t index) const override { return first_ + index; }
    std::span<const std::string> classes() const override { return classes_; }
    std::vector<std::int64_t> shard_sizes() const override { return shards_; }
    void prefetch(std::span<const std::int64_t> indices) const override { wanted = {indices.begin(), indices.end()}; }
    std::string path() const override { return "numbers"; }
    std::int64_t bytes() const override { return 10 * size_; }
    mutable std::vector<std::int64_t> wanted;

  private:
    std::int64_t size_, first_;
    std::vector<std::string> classes_;
    std::vector<std::int64_t> shards_;
};

TEST(ConcatDataset, SamplesFollowOneAnother) {
    const auto first = std::make_shared<Numbers>(3, 0);
    const auto second = std::make_shared<Numbers>(2, 100);
    const ConcatDataset both({first, second});
    ASSERT_EQ(both.size(), 5);
    Sample sample;
    std::vector<std::int64_t> labels;
    for (std::int64_t i = 0; i < 5; ++i) {
        both.read(i, sample);
        labels.push_back(sample.label);
        EXPECT_EQ(both.label(i), sample.label);
    }
    EXPECT_THAT(labels, ElementsAre(0, 1, 2, 100, 101));
    EXPECT_EQ(both.key(2), "0:2");
    EXPECT_EQ(both.key(3), "1:0");
    EXPECT_EQ(both.path(), "numbers + numbers");
    EXPECT_EQ(both.bytes(), 50);
    EXPECT_THROW(both.read(5, sample), InvalidArgument);
    EXPECT_THROW(both.read(-1, sample), InvalidArgument);
    const std::int64_t wanted[] = {4, 0, 3};
    both.prefetch(wanted);
    EXPECT_THAT(first->wanted, ElementsAre(0));
    EXPECT_THAT(second->wanted, ElementsAre(1, 0));
}

TEST(ConcatDataset, OtherClassesAreRefused) {
    try {
        const ConcatDataset both(
            {std::make_shared<Numbers>(3, 0), std::make_shared<Numbers>(2, 0, std::vector<std::string>{"a", "c"})});
        ADD_FAILURE() << "accepted";
    } catch (const InvalidArgument& error) {
        EXPECT_THAT(error.what(), HasSubstr("a, b, got a, c"));
    }
    EXPECT_THROW(ConcatDataset({}), InvalidArgument);
}

// A shuffle window over the stored order of a data set without shards would hold a single class.
TEST(ConcatDataset, HasShardsWhereAllHave) {
    const std::vector<std::string> classes = {"a", "b"};
    const auto sharded = std::make_shared<Numbers>(5, 0, classes, std::vector<std::int64_t>{2, 3});
    const auto plain = std::make_shared<Numbers>(4, 0);
    EXPECT_THAT(ConcatDataset({sharded, sharded}).shard_sizes(), ElementsAre(2, 3, 2, 3));
    EXPECT_THAT(ConcatDataset({sharded, plain}).shard_sizes(), ElementsAre());
}

}  // namespace
}  // namespace stoker
