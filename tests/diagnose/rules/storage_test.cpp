// The advice if the storage is too slow: caches, and commands that pack.
#include <gmock/gmock.h>

#include "diagnose/rules/support.h"

namespace stoker {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Changes = std::vector<RecipeChange>;

// Half of the time is a wait for workers that read.
RankRecords reading_rank() {
    return MadeUpRun{.share = {{Phase::wait, 0.5}, {Phase::forward, 0.5}},
                     .stages = {{Stage::read, 0.9}, {Stage::pixels, 0.1}},
                     .worker_cpu = 0.1,
                     .process_cores = 0.6,
                     .busy_share = 0.3}
        .rank();
}

Finding storage_finding(const RankRecords& rank, const std::map<std::string, std::string>& recipe = {}) {
    const Diagnosis diagnosis = diagnose({.ranks = {rank}, .recipe = recipe});
    EXPECT_EQ(diagnosis.findings.front().rule, "storage-bound");
    return diagnosis.findings.front();
}

TEST(StorageRules, ACacheThatIsThereIsNotAdvised) {
    RankRecords rank = reading_rank();
    rank.facts.data.cache = "ram";
    const std::map<std::string, std::string> encoded = {{"data.cache", "ram"}, {"data.cache_as", "encoded"}};
    const Finding full = storage_finding(rank, encoded);
    EXPECT_THAT(full.fix.recipe, IsEmpty());
    EXPECT_THAT(full.text, HasSubstr("Pack the data"));
    const Finding pixels = storage_finding(rank, {{"data.cache", "ram"}, {"data.cache_as", "decoded"}});
    EXPECT_EQ(pixels.fix.recipe, (Changes{{"data.cache_as", "\"encoded\""}})) << "pixels may be too many";
    rank.facts.data.samples = 25'000;
    rank.facts.data.sample_bytes = 200e3;  // 5 GB
    rank.facts.host.memory_bytes = std::int64_t{64} << 30;
    const Finding small = storage_finding(rank, encoded);
    EXPECT_THAT(small.text, HasSubstr("does not hold all"));
    EXPECT_EQ(small.fix.recipe, (Changes{{"data.cache_bytes", "5250000000"}}));
    rank.facts.data.cache = "disk";
    rank.facts.data.path = "s3://bucket/train";
    rank.facts.host.memory_bytes = std::int64_t{8} << 30;
    const std::map<std::string, std::string> on_disk = {{"data.cache", "disk"}, {"data.cache_as", "encoded"}};
    EXPECT_THAT(storage_finding(rank, on_disk).text, HasSubstr("does not hold all"));
    rank.facts.data.samples = 1000;
    rank.facts.host.memory_bytes = std::int64_t{300} << 20;
    EXPECT_THAT(storage_finding(rank, on_disk).fix.recipe, IsEmpty());
}

// Data on a local disk that no memory holds, without a cache.
TEST(StorageRules, DataThatFitNoCacheArePacked) {
    RankRecords rank = reading_rank();
    rank.facts.data.cache = "none";
    rank.facts.data.samples = 1'000'000;
    const Finding finding = storage_finding(rank);
    EXPECT_THAT(finding.text, HasSubstr("Pack the data"));
    EXPECT_THAT(finding.fix.recipe, IsEmpty());
}

TEST(StorageRules, PackingKeepsTheSplitForValidation) {
    RankRecords rank = reading_rank();
    rank.facts.train.val_samples = 100;
    const auto code = [&](const char* val, const char* mix) {
        return storage_finding(rank, {{"data.val", val}, {"data.mix", mix}, {"data.first_frame", "true"}}).fix.code;
    };
    EXPECT_THAT(code("", "[]"),
                EndsWith(" --first-frame  # then train with --set data.train=packed.stk --set data.val=photos"));
    EXPECT_THAT(code("others", "[]"), EndsWith("--set data.train=packed.stk"));
    EXPECT_THAT(code("", "[\"others\"]"), EndsWith("--set data.train=packed.stk")) << "that may have the split";
}

}  // namespace
}  // namespace stoker
