// Advice that fits the reader: keys and commands for a run of Stoker, lines of Python for a trace of a program.
#include "stoker/diagnose/advice/advise.h"

#include <gmock/gmock.h>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "diagnose/rules/profiles.h"
#include "diagnose/rules/support.h"
#include "stoker/diagnose/advice/tables.h"

namespace stoker {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

bool has_text(std::span<const Row> own, std::string_view rule) {
    const auto says = [&](const Row& row) { return row.of == rule && row.text; };
    return std::ranges::any_of(own, says) || std::ranges::any_of(kEveryone, says);
}

TEST(AdviceTables, EachRuleIsSaidToEachAudience) {
    for (const Rule& rule : rules()) {
        EXPECT_TRUE(has_text(kRecipe, rule.id)) << rule.id;
        EXPECT_TRUE(has_text(kPytorch, rule.id)) << rule.id;
    }
}

// All evidence that texts name.
std::vector<Evidence> all_evidence() {
    std::istringstream names(
        "wait_share lost_share start_share core_wait_share workers cores memory_share throttled_share steal_share "
        "others_share evaluate_share checkpoint_share checkpoints fixed_share slow_steps copy_share exposed_share "
        "syncs_per_step host_share wait_us kernels_per_step kernel_us eligible_share busy_share queued_share "
        "largest_cause_share kernels_per_convolution input_sizes clock_share celsius share size optimizer_share "
        "convolutions_per_step tensors_per_step iterations_per_step devices loop_share product_share bf16_speedup rank "
        "step_ms other_step_ms cause_ms read_share_of_workers decode_share_of_workers augment_share_of_workers");
    std::vector<Evidence> all;
    for (std::string name; names >> name;) {
        all.push_back({name, 0.5});
    }
    return all;
}

// A field that is misspelt throws.
TEST(AdviceTables, ARowIsOfARuleAndCanBeFilled) {
    const RunRecords records{.ranks = {MadeUpRun{}.rank()}};
    const RunView run(records);
    const auto rule_of = [](std::string_view row) { return row.substr(0, row.find('/')); };
    const auto is_rule = [&](std::string_view row) {
        return std::ranges::find(rules(), rule_of(row), &Rule::id) != rules().end();
    };
    for (const auto rows : {kEveryone, kRecipe, kWithoutKey, kPytorch, kStokerLoader}) {
        for (const Row& row : rows) {
            EXPECT_TRUE(is_rule(row.of)) << row.of;
            Finding finding{.rule = std::string(rule_of(row.of)), .evidence = all_evidence()};
            finding.variant = row.of.substr(std::min(finding.rule.size() + 1, row.of.size()));
            const RankRecords& rank = run.ranks.front();
            const Case c{.finding = finding, .records = run, .rank = rank, .run = run.summary(rank)};
            EXPECT_TRUE(c.is_of(row.of)) << row.of;
            for (const Template& text : {row.text, row.code, row.place}) {
                if (text) {
                    EXPECT_NO_THROW(text(c)) << row.of;
                }
            }
        }
    }
    for (const Key& key : kRecipeKeys) {
        EXPECT_TRUE(is_rule(key.of)) << key.of;
    }
}

TEST(AdviceTables, TheAudienceIsThatOfTheRecords) {
    const auto audience = [](const char* kind, std::string_view writer, const char* loader = "") {
        RankRecords rank;
        rank.facts.writer = writer;
        rank.facts.data.loader = loader;
        return audience_of({.kind = kind, .ranks = {rank}});
    };
    EXPECT_EQ(audience("run", kOwnWriter), Audience::recipe);
    EXPECT_EQ(audience("trace", kOwnWriter), Audience::own_trace);
    EXPECT_EQ(audience("trace", "torch.profiler"), Audience::torch_trace);
    EXPECT_EQ(audience("run", kPythonWriter, "DataLoader"), Audience::pytorch);
    EXPECT_EQ(audience("run", kPythonWriter, "stoker.Loader"), Audience::stoker_loader);
}

// A profile of a run of Stoker whose recipe has the defaults.
RunRecords own_run(RankRecords rank) {
    rank.facts.writer = kOwnWriter;
    return {.ranks = {std::move(rank)},
            .recipe = {{"train.compile", "auto"}, {"train.compress_gradients", "none"}, {"data.pin_memory", "true"}}};
}

TEST(OwnFixes, AnEagerStepIsToldWhyItIsNotCaptured) {
    RankRecords rank = made({}, {{Phase::forward, 0.2}, {Phase::backward, 0.2}});
    rank.profile->gpu->kernel_us = 2e4;
    rank.facts.train.compiled = "eager: the loss reads a value";
    const auto found = found_in(own_run(rank), "launch-bound");
    ASSERT_TRUE(found);
    EXPECT_THAT(found->fix.recipe, IsEmpty());
    EXPECT_THAT(found->fix.code, AllOf(HasSubstr("the loss reads a value"), Not(HasSubstr("torch."))));
}

TEST(OwnFixes, NoLineOfPythonIsAskedOfARun) {
    RankRecords rank = made({{Phase::sync, 0.3}}, {{Phase::sync, 0.1}, {Phase::forward, 0.5}});
    rank.profile->gpu->kernels = 100;
    rank.profile->syncs = {{.place = "aten::item", .count = 10, .us = 3e4, .idle_us = 1e4}};
    rank.profile->copies = {{.kind = "HtoD", .count = 10, .bytes = 1 << 30, .us = 1e4}};
    const RunRecords records = own_run(rank);
    for (const char* rule : {"sync-points", "gpu-idle", "copy-not-overlapped"}) {
        const auto found = found_in(records, rule);
        ASSERT_TRUE(found) << rule;
        EXPECT_THAT(found->fix.code, AllOf(Not(HasSubstr("torch")), Not(HasSubstr("loss.detach")), Not(IsEmpty())));
    }
}

TEST(OwnFixes, PinnedMemoryIsAKey) {
    RankRecords rank = made({{Phase::copy, 0.2}}, {{Phase::copy, 0.1}});
    rank.profile->copies = {{.kind = "HtoD", .pageable = true, .count = 10, .bytes = 10 << 20, .us = 1e4}};
    RunRecords records = own_run(rank);
    records.recipe["data.pin_memory"] = "false";
    EXPECT_THAT(found_in(records, "pageable-copy")->fix.recipe, ElementsAre(RecipeChange{"data.pin_memory", "true"}));
}

TEST(OwnFixes, GradientsAreCompressedBeforeTheBatchGrows) {
    RankRecords rank = made({}, {});
    rank.facts.world_size = 2;
    rank.facts.train.batch_size = 64;
    rank.profile->collectives = {
        {.name = "nccl:all_reduce", .backend = "nccl", .on_device = true, .count = 10, .us = 3e4, .exposed_us = 2e4}};
    RunRecords records = own_run(rank);
    const auto fix = [&] { return found_in(records, "communication")->fix; };
    EXPECT_THAT(fix().recipe, ElementsAre(RecipeChange{"train.compress_gradients", "\"bf16\""}));
    EXPECT_THAT(fix().code, HasSubstr("import default_hooks\n"));
    records.recipe["train.compress_gradients"] = "bf16";
    EXPECT_THAT(fix().recipe, ElementsAre(RecipeChange{"data.batch_size", "128"}));
}

TEST(OwnFixes, GlooOnGpusIsSeenWithoutAProfile) {
    RankRecords rank = MadeUpRun{.share = {{Phase::communication, 0.2}, {Phase::forward, 0.8}}}.rank();
    rank.facts.writer = kOwnWriter;
    rank.facts.world_size = 2;
    rank.facts.device.type = "cuda";
    rank.facts.train.collectives = "gloo";
    RunRecords records{.ranks = {rank}};
    ASSERT_TRUE(found_in(records, "gloo-on-gpu"));
    EXPECT_THAT(found_in(records, "gloo-on-gpu")->fix.code, HasSubstr("stoker doctor"));
    EXPECT_FALSE(found_in(records, "communication")) << "said once";
    records.ranks[0].facts.train.collectives = "nccl";
    EXPECT_FALSE(found_in(records, "gloo-on-gpu"));
    EXPECT_TRUE(found_in(records, "communication"));
}

TEST(OwnFixes, PackedAndRemoteDataAreNotPackedAgain) {
    RankRecords rank = MadeUpRun{.share = {{Phase::wait, 0.5}, {Phase::forward, 0.5}},
                                 .stages = {{Stage::read, 0.9}, {Stage::pixels, 0.1}},
                                 .worker_cpu = 0.1,
                                 .process_cores = 0.6,
                                 .busy_share = 0.3}
                           .rank();
    rank.facts.data.samples = 1'000'000;  // 100 GB do not fit in memory
    rank.facts.data.format = "stk";
    const auto fix = [&] { return found_in({.ranks = {rank}}, "storage-bound")->fix; };
    EXPECT_THAT(fix().code, Not(HasSubstr("stoker pack")));
    EXPECT_THAT(found_in({.ranks = {rank}}, "storage-bound")->text, HasSubstr("faster disk"));
    rank.facts.data.path = "s3://bucket/photos.stk";
    EXPECT_THAT(fix().recipe, testing::Contains(RecipeChange{"data.cache", "\"disk\""}));
    rank.facts.data.path = "photos.stk";
    rank.facts.data.storage = "network";
    EXPECT_THAT(fix().recipe, testing::Contains(RecipeChange{"data.cache", "\"disk\""}));
}

TEST(OwnFixes, RanksOfAHostShareItsMemory) {
    RankRecords rank = MadeUpRun{}.rank();
    for (IntervalEntry& interval : rank.intervals) {
        interval.rss_bytes = std::int64_t{2} << 30;  // of 8
    }
    EXPECT_FALSE(found_in({.ranks = {rank}}, "memory-pressure"));
    rank.facts.host.ranks = 4;
    rank.facts.host.cores = 16;
    const auto found = found_in({.ranks = {rank}}, "memory-pressure");
    ASSERT_TRUE(found);
    EXPECT_THAT(found->text, HasSubstr("The 4 processes"));
}

OperatorEntry half_product(const char* name, const char* shapes) {
    return {.name = name, .count = 10, .device_us = 1e4, .shapes = shapes, .types = R"(["c10::Half", "c10::Half"])"};
}

// 100 samples are not the width of a layer, also if the backward pass multiplies over them.
TEST(OddSizes, SamplesAreToldFromWidths) {
    RankRecords rank = made({}, {});
    rank.profile->operators = {half_product("aten::addmm", "[[1024], [100, 1024], [1024, 1024]]")};
    EXPECT_FALSE(find(rank, "odd-sizes")) << "rows need no multiple of 8";
    rank.profile->operators.push_back(half_product("aten::mm", "[[1024, 100], [100, 1024]]"));
    ASSERT_TRUE(find(rank, "odd-sizes"));
    EXPECT_THAT(find(rank, "odd-sizes")->fix.code, AllOf(HasSubstr("batch_size"), HasSubstr("104")));
    rank.profile->operators = {half_product("aten::addmm", "[[33], [64, 1000], [1000, 33]]")};
    EXPECT_THAT(find(rank, "odd-sizes")->fix.code, HasSubstr("nn.Linear(..., 40)"));
    rank.profile->operators = {half_product("aten::bmm", "[[96, 197, 64], [96, 64, 197]]")};
    EXPECT_THAT(find(rank, "odd-sizes")->fix.code, AllOf(HasSubstr("197 to 200"), Not(HasSubstr("nn.Linear"))));
}

TEST(PythonFixes, UnpinnedCopiesAreSeenWithoutAProfile) {
    RankRecords rank = MadeUpRun{.share = {{Phase::copy, 0.25}, {Phase::forward, 0.75}}}.rank();
    rank.facts.writer = kPythonWriter;
    rank.facts.device.type = "cuda";
    rank.facts.data.pinned = false;
    ASSERT_TRUE(found_in({.ranks = {rank}}, "pageable-copy"));
    rank.facts.data.pinned = true;
    EXPECT_FALSE(found_in({.ranks = {rank}}, "pageable-copy"));
    rank.facts.data.pinned.reset();
    EXPECT_FALSE(found_in({.ranks = {rank}}, "pageable-copy")) << "unknown";
}

TEST(PythonFixes, WorkersAreThisProcesssShareOfTheCores) {
    RankRecords rank = made({{Phase::wait, 0.1}}, {}, false);
    rank.facts.data.workers = 0;
    EXPECT_THAT(find(rank, "input-bound")->fix.code,
                AllOf(StartsWith("import os"), HasSubstr("LOCAL_WORLD_SIZE"), HasSubstr("num_workers=cores")));
}

TEST(PythonFixes, ReadsOfSizesAreAdvisedOnSizes) {
    RankRecords rank = made({{Phase::sync, 0.3}}, {{Phase::sync, 0.1}});
    rank.profile->syncs = {{.place = "train.py:9, aten::nonzero", .count = 10, .us = 3e4, .idle_us = 1e4}};
    EXPECT_THAT(find(rank, "sync-points")->fix.code, HasSubstr("torch.where"));
    rank.profile->syncs[0].place = "train.py:9, aten::item";
    EXPECT_THAT(find(rank, "sync-points")->fix.code, HasSubstr("loss.detach()"));
}

}  // namespace
}  // namespace stoker
