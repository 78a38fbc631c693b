// Subsets hold the chosen samples, and a split by key keeps every sample on its side whatever other samples exist.
#include "stoker/formats/subset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "stoker/base/error.h"

namespace stoker::subset_test {
namespace {

using ::testing::ElementsAre;

// `size` samples with the keys first, first + step, first + 2 step, ...; the label is the index.
class Numbers final : public Dataset {
  public:
    explicit Numbers(std::int64_t size, std::int64_t first = 0, std::int64_t step = 1)
        : size_(size), first_(first), step_(step) {}
    std::int64_t size() const override { return size_; }
    void read(std::int64_t index, Sample& sample) const override { sample.label = index; }
    std::string key(std::int64_t index) const override { return "n/" + std::to_string(first_ + index * step_); }
    void prefetch(std::span<const std::int64_t> indices) const override {
        wanted.assign(indices.begin(), indices.end());
    }
    std::span<const std::string> classes() const override { return classes_; }
    std::string_view format() const override { return "numbers"; }
    std::string path() const override { return "here"; }
    std::int64_t bytes() const override { return 1000; }

    mutable std::vector<std::int64_t> wanted;

  private:
    std::int64_t size_;
    std::int64_t first_;
    std::int64_t step_;
    std::vector<std::string> classes_ = {"one", "two"};
};

std::set<std::string> keys(const Dataset& dataset) {
    std::set<std::string> set;
    for (std::int64_t i = 0; i < dataset.size(); ++i) {
        set.insert(dataset.key(i));
    }
    return set;
}

TEST(Subset, HoldsTheChosenSamples) {
    const auto numbers = std::make_shared<Numbers>(10);
    const Subset subset(numbers, {7, 0, 7});
    EXPECT_EQ(subset.size(), 3);
    Sample sample;
    subset.read(0, sample);
    EXPECT_EQ(sample.label, 7);
    EXPECT_EQ(subset.key(1), "n/0");
    subset.prefetch(std::vector<std::int64_t>{2, 1});
    EXPECT_THAT(numbers->wanted, ElementsAre(7, 0));
    EXPECT_THAT(subset.classes(), ElementsAre("one", "two"));
    EXPECT_EQ(subset.format(), "numbers");
    EXPECT_EQ(subset.path(), "here");
    EXPECT_EQ(subset.bytes(), 300);
    EXPECT_THROW(subset.read(3, sample), InvalidArgument);
    EXPECT_THROW(subset.key(-1), InvalidArgument);
    EXPECT_THROW(Subset(numbers, {10}), InvalidArgument);
    EXPECT_THROW(Subset(numbers, {-1}), InvalidArgument);
}

TEST(Subset, SplitIsDisjointCompleteInOrderAndOfTheExpectedSize) {
    const auto numbers = std::make_shared<Numbers>(20'000);
    const SplitDatasets split = split_by_key(numbers, 0.1);
    EXPECT_NEAR(static_cast<double>(split.share->size()), 2000, 5 * 42.4);  // five standard deviations
    EXPECT_EQ(split.share->size() + split.rest->size(), 20'000);
    auto all = keys(*split.share);
    all.merge(keys(*split.rest));
    EXPECT_EQ(all.size(), 20'000u);
    Sample sample;
    std::int64_t last = -1;
    for (std::int64_t i = 0; i < split.share->size(); ++i) {
        split.share->read(i, sample);
        EXPECT_GT(sample.label, last);
        last = sample.label;
    }
}

TEST(Subset, ASamplesSideDependsOnItsKeyAlone) {
    const auto many = split_by_key(std::make_shared<Numbers>(3000), 0.25);
    const auto few = split_by_key(std::make_shared<Numbers>(1000, 0, 3), 0.25);  // every third of them
    const auto chosen = keys(*many.share);
    for (const std::string& key : keys(*few.share)) {
        EXPECT_TRUE(chosen.contains(key)) << key;
    }
    for (const std::string& key : keys(*few.rest)) {
        EXPECT_FALSE(chosen.contains(key)) << key;
    }
    // A larger share contains the smaller one.
    const auto half = keys(*split_by_key(std::make_shared<Numbers>(3000), 0.5).share);
    for (const std::string& key : chosen) {
        EXPECT_TRUE(half.contains(key)) << key;
    }
}

// Sample i has the class i % classes, but that of every hundredth is class 0.
class Labelled final : public Dataset {
  public:
    Labelled(std::int64_t size, std::int64_t classes) : size_(size), classes_(classes) {}
    std::int64_t size() const override { return size_; }
    void read(std::int64_t /*index*/, Sample& /*sample*/) const override {}
    std::string key(std::int64_t index) const override { return "n/" + std::to_string(index); }
    std::optional<std::int64_t> label(std::int64_t index) const override {
        return index % 100 == 0 ? 0 : index % classes_;
    }

  private:
    std::int64_t size_;
    std::int64_t classes_;
};

std::map<std::int64_t, std::int64_t> samples_of_classes(const Dataset& dataset) {
    std::map<std::int64_t, std::int64_t> counts;
    for (std::int64_t i = 0; i < dataset.size(); ++i) {
        ++counts[dataset.label(i).value()];
    }
    return counts;
}

TEST(Subset, SplitIsStratifiedByClass) {
    const auto dataset = std::make_shared<Labelled>(4000, 37);
    const SplitDatasets split = split_by_key(dataset, 0.1);
    const SplitDatasets again = split_by_key(split.rest, 0.5);
    for (const auto& [label, samples] : samples_of_classes(*dataset)) {
        const std::int64_t chosen = samples_of_classes(*split.share)[label];
        EXPECT_NEAR(static_cast<double>(chosen), 0.1 * static_cast<double>(samples), 1) << label;
        EXPECT_NEAR(static_cast<double>(samples_of_classes(*again.share)[label]),
                    0.5 * static_cast<double>(samples - chosen), 1)
            << label;
    }
    // A larger share contains the smaller one.
    const auto half = keys(*split_by_key(dataset, 0.5).share);
    for (const std::string& key : keys(*split.share)) {
        EXPECT_TRUE(half.contains(key)) << key;
    }
}

TEST(Subset, SmallClassesTogetherHaveTheShare) {
    const SplitDatasets split = split_by_key(std::make_shared<Labelled>(4000, 1500), 0.1);
    EXPECT_NEAR(static_cast<double>(split.share->size()), 400, 5 * 19);  // five standard deviations
}

TEST(Subset, NewSamplesOfAClassMoveNoMoreOldOnes) {
    const auto before = keys(*split_by_key(std::make_shared<Labelled>(4000, 7), 0.1).share);
    const auto after = keys(*split_by_key(std::make_shared<Labelled>(4070, 7), 0.1).share);
    const auto old = [](const std::string& key) { return std::stoi(key.substr(2)) < 4000; };
    std::int64_t moved = 0;
    for (const std::string& key : before) {
        moved += after.contains(key) ? 0 : 1;
    }
    for (const std::string& key : after) {
        moved += old(key) && !before.contains(key) ? 1 : 0;
    }
    EXPECT_LE(moved, 70);
}

// The key of an LMDB record is part of the record.
TEST(Subset, ASampleWithADamagedKeyHasASideToo) {
    struct OneBad final : Dataset {
        std::int64_t size() const override { return 40; }
        void read(std::int64_t /*index*/, Sample& /*sample*/) const override {}
        std::string key(std::int64_t index) const override {
            if (index == 9) {
                throw DataError({}, {.where = "test", .expected = "a record", .got = "damage"});
            }
            return std::to_string(index);
        }
    };
    const SplitDatasets split = split_by_key(std::make_shared<OneBad>(), 0.2);
    EXPECT_EQ(split.share->size() + split.rest->size(), 40);
}

// Must never change: a release that moved samples between training and validation would leak one into the other.
TEST(Subset, TheSplitNeverChanges) {
    const auto split = split_by_key(std::make_shared<Numbers>(40), 0.2);
    EXPECT_THAT(keys(*split.share), ElementsAre("n/17", "n/21", "n/22", "n/33", "n/38"));
    const auto labelled = split_by_key(std::make_shared<Labelled>(40, 4), 0.2);
    EXPECT_THAT(keys(*labelled.share), ElementsAre("n/12", "n/17", "n/19", "n/21", "n/22", "n/3", "n/38", "n/4"));
}

TEST(Subset, RefusesSharesThatLeaveOneSideEmpty) {
    const auto numbers = std::make_shared<Numbers>(10);
    for (const double share : {0.0, 1.0, -0.5, 2.0, std::numeric_limits<double>::quiet_NaN(), 1e-9, 1 - 1e-9}) {
        EXPECT_THROW(split_by_key(numbers, share), InvalidArgument) << share;
    }
    EXPECT_THROW(split_by_key(std::make_shared<Numbers>(0), 0.5), InvalidArgument);
}

}  // namespace
}  // namespace stoker::subset_test
