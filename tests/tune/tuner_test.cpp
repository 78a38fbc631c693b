// The search on a made-up machine whose rates are known: the changes that it keeps or rolls back, and how it ends.
#include "stoker/tune/tuner.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <span>

#include "stoker/tune/contender.h"
#include "stoker/tune/prober.h"
#include "tune/fake_trial.h"

namespace stoker::tuner_test {
namespace {

std::vector<std::string> changes_of(const std::vector<TriedChange>& tried) {
    std::vector<std::string> texts;
    for (const TriedChange& each : tried) {
        texts.push_back(text_of(each.change));
    }
    return texts;
}

TEST(Tuner, FindsWorkersAndTheCache) {
    Machine machine;
    const TuneResult result = tune(photos(), {}, {}, opener(machine));
    EXPECT_THAT(changes_of(result.kept), testing::Contains(testing::HasSubstr("data.cache")));
    EXPECT_THAT(changes_of(result.kept), testing::Contains(testing::HasSubstr("data.workers")));
    // Two cores, and 5 ms of CPU for a sample.
    EXPECT_NEAR(result.tuned, 400, 40);
    EXPECT_NEAR(result.baseline, 1 / 0.012, 3);
    EXPECT_TRUE(result.untried.empty());
    for (const TriedChange& kept : result.kept) {
        EXPECT_NEAR(*kept.predicted / kept.measured->median, 1, 0.15) << text_of(kept.change);
    }
}

// The step needs both cores to be faster, and a loader that decodes needs one of them.
TEST(Tuner, WhatHelpsOnlyTogetherIsTriedTogether) {
    Machine machine{.load = 0.0017, .step = 0.0019, .cached_load = 0.0001, .channels_last_step = 0.004};
    const TuneResult result = tune(photos(), {"train.threads=1"}, {}, opener(machine));
    EXPECT_THAT(changes_of(result.kept), testing::Contains(testing::AllOf(testing::HasSubstr("data.cache"),
                                                                          testing::HasSubstr("train.threads = 2"))));
    EXPECT_GT(result.tuned, 950);
}

// A worker that decodes slows the step, which no cost says. By the costs a cache brings nothing then.
TEST(Tuner, ACacheIsTriedWhereAWorkerBroughtLessThanPredicted) {
    Machine machine{.load = 0.0017,
                    .step = 0.0019,
                    .cached_load = 0.0001,
                    .channels_last_step = 0.004,
                    .beside = 0.7,
                    .step_scales = false};
    const TuneResult result = tune(photos(), {"train.threads=1"}, {}, opener(machine));
    EXPECT_THAT(changes_of(result.kept), testing::Contains(testing::HasSubstr("data.cache")));
    EXPECT_GT(result.tuned, 480);
}

TEST(Tuner, BatchesAheadWhereSamplesAreUneven) {
    Machine machine{.short_queue = 0.8};
    const TuneResult result = tune(photos(), {"data.workers=2"}, {}, opener(machine));
    const auto kept = std::ranges::find_if(
        result.kept, [](const TriedChange& each) { return text_of(each.change) == "data.prefetch = 4"; });
    ASSERT_NE(kept, result.kept.end());
    EXPECT_NEAR(kept->measured->median, 1.25, 0.05);
    EXPECT_NEAR(*kept->predicted / kept->measured->median, 1, 0.15);
}

// Costs that promise more than training reaches do not justify more batches ahead if nothing waits for one.
TEST(Tuner, BatchesAheadOnlyWhereTheStepWaits) {
    Machine machine{.most_rate = 60, .load = 0.001, .step = 0.020, .cached_load = 0.001, .channels_last_step = 0.030};
    const TuneResult result = tune(photos(), {"data.workers=1"}, {}, opener(machine));
    EXPECT_THAT(changes_of(result.rolled_back), testing::Not(testing::Contains(testing::HasSubstr("data.prefetch"))));
}

TEST(Tuner, NeverTouchesWhatChangesTheLearning) {
    Machine machine;
    tune(photos(), {}, {}, opener(machine));
    for (const TrialSpec& spec : machine.opened) {
        for (const std::string& set : spec.sets) {
            EXPECT_THAT(set.substr(0, set.find('=')),
                        testing::AnyOf("data.workers", "train.threads", "data.prefetch", "data.cache",
                                       "data.cache_bytes", "train.channels_last"));
        }
    }
}

TEST(Tuner, AHealthyRecipeStaysAsItIs) {
    Machine machine{.load = 0.0001, .step = 0.020, .cached_load = 0.0001, .channels_last_step = 0.030};
    Recipe recipe = photos();
    const TuneResult result = tune(recipe, {"data.workers=1"}, {}, opener(machine));
    EXPECT_THAT(changes_of(result.kept), testing::IsEmpty());
    EXPECT_EQ(result.tuned, result.baseline);
}

// A second try alone is for memory: another failure would be the same.
TEST(Contender, OnlyMemoryIsAReasonForASecondTry) {
    Machine machine;
    const OpenTrial open = opener(machine);
    bool memory = false;
    const OpenTrial failing = [&](const TrialSpec& spec) -> std::unique_ptr<Trial> {
        machine.opened.push_back(spec);
        if (memory) {
            throw TrialOutOfMemory("no memory");
        }
        throw TrialFailed("refused");
    };
    const auto opened = [&] {
        machine.opened.clear();
        Contender a(open, {});
        Contender b(failing, {});
        EXPECT_THROW(compare(a, b, 1, {}, [] { return false; }), TrialFailed);
        return machine.opened.size();
    };
    EXPECT_EQ(opened(), 2);
    memory = true;
    EXPECT_EQ(opened(), 4);
}

TEST(Tuner, TheWholeGainIsMeasured) {
    Machine machine{.short_queue = 0.8};
    const TuneResult result = tune(photos(), {}, {}, opener(machine));
    ASSERT_TRUE(result.gain.has_value());
    EXPECT_NEAR(result.tuned / result.baseline, result.gain->median, 0.15);
    EXPECT_EQ(machine.opened.back().sets, std::vector<std::string>());  // the original recipe
}

// The comparison of a single change that was kept is the whole gain: it is not measured again.
TEST(Tuner, TheGainOfOneChangeIsMeasuredOnce) {
    Machine machine{.short_queue = 0.8};
    machine.fails = "data.cache=\"ram\"";
    const TuneResult result = tune(photos(), {"data.workers=2"}, {}, opener(machine));
    ASSERT_EQ(result.kept.size(), 1);
    ASSERT_TRUE(result.gain.has_value());
    EXPECT_EQ(result.gain->median, result.kept[0].measured->median);
    EXPECT_NEAR(result.tuned / result.baseline, 1.25, 0.05);
    EXPECT_NE(machine.opened.back().sets, std::vector<std::string>({"data.workers=2"}));
}

TEST(Tuner, TrialsOfACachedRecipeUseAPart) {
    Machine machine;
    const Recipe recipe = parse_recipe("[data]\ntrain = \"photos\"\nbatch_size = 8\ncache = \"ram\"\n", "photos.toml");
    tune(recipe, {"data.cache=\"ram\""}, {}, opener(machine));
    // The first measures what a pass takes without the cache.
    EXPECT_EQ(machine.opened.front().samples, 0);
    EXPECT_THAT(machine.opened.front().sets, testing::Contains("data.cache=\"none\""));
    ASSERT_GT(machine.opened.size(), 2);
    for (const TrialSpec& spec : std::span(machine.opened).subspan(1)) {
        EXPECT_EQ(spec.samples, 50 * 8);
    }
}

// The loader takes more CPU time while a step runs. That is not the training thread's.
TEST(Tuner, ALoaderThatTakesMoreInTrainingIsStillTheBottleneck) {
    Machine machine{
        .cores = 16, .gpu = true, .training_load = 1.05, .load = 0.020, .step = 0.0005, .cached_load = 0.0005};
    const TuneResult result = tune(photos(), {"data.workers=16"}, {}, opener(machine));
    EXPECT_THAT(changes_of(result.kept), testing::Contains(testing::HasSubstr("data.cache")));
}

// More workers are predicted to help and do not: the costs of other variants are measured soon.
TEST(Tuner, AWrongPredictionIsCorrected) {
    Machine machine{.cores = 64, .gpu = true, .most_rate = 400, .load = 0.020, .step = 0.002, .cached_load = 0.001};
    const TuneResult result = tune(photos(), {"data.workers=8"}, {}, opener(machine));
    EXPECT_TRUE(result.kept.empty());
    EXPECT_LE(result.rolled_back.size(), 6);
    EXPECT_THAT(changes_of(result.rolled_back), testing::Contains(testing::HasSubstr("data.cache")));
}

// Three workers and more are predicted to be equal. Three are slower than the one that is there.
TEST(Tuner, ASlowSettingDoesNotRuleOutTheOthers) {
    Machine machine{.cores = 4, .gpu = true, .load = 0.010, .step = 0.004, .slow_workers = 3};
    machine.fails = "data.cache=\"ram\"";
    const TuneResult result = tune(photos(), {"data.workers=1"}, {}, opener(machine));
    EXPECT_THAT(changes_of(result.rolled_back), testing::Contains("data.workers = 3"));
    ASSERT_FALSE(result.kept.empty());
    EXPECT_THAT(text_of(result.kept[0].change), testing::HasSubstr("data.workers"));
    EXPECT_NEAR(result.tuned, 250, 15);
}

// What threads that share a core cost is in no prediction: 250 samples a second are predicted for one thread on each
// core, and 333 for two of each, which are 200.
TEST(Tuner, OneThreadForEachCoreIsTriedAlthoughLessIsPredicted) {
    Machine machine{.load = 0.002, .cached_load = 0.002, .crowded = 0.6};
    const TuneResult result = tune(photos(), {"data.workers=2"}, {}, opener(machine));
    EXPECT_NEAR(result.baseline, 200, 5);
    EXPECT_NEAR(result.tuned, 250, 5);
}

// One thread for each core brought more than predicted. Others are not tried again, by predictions that do not know
// why.
TEST(Tuner, ABetterSettingThanPredictedLowersTheOthers) {
    Machine machine{.load = 0.002, .cached_load = 0.002, .crowded = 0.6};
    const TuneResult result = tune(photos(), {"data.workers=1"}, {}, opener(machine));
    EXPECT_THAT(changes_of(result.kept), testing::ElementsAre("train.threads = 1"));
    for (const int workers : {2, 3, 4}) {
        EXPECT_THAT(changes_of(result.rolled_back),
                    testing::Not(testing::Contains(testing::HasSubstr(fmt::format("data.workers = {}", workers)))));
    }
}

// One worker keeps up. More of them would only share the step's cores.
TEST(Tuner, MoreThreadsThanCoresAreNotTriedForNothing) {
    Machine machine{.load = 0.0001, .step = 0.020, .cached_load = 0.0001, .channels_last_step = 0.030};
    const TuneResult result = tune(photos(), {"data.workers=1"}, {}, opener(machine));
    for (const int workers : {2, 3, 4}) {
        EXPECT_THAT(changes_of(result.rolled_back),
                    testing::Not(testing::Contains(fmt::format("data.workers = {}", workers))));
    }
}

TEST(Tuner, TheSettingThatIsThereIsNoCandidate) {
    Machine machine{.load = 0.0001, .step = 0.020, .cached_load = 0.0001, .channels_last_step = 0.030};
    const TuneResult result = tune(photos(), {"data.workers=1"}, {}, opener(machine));
    EXPECT_THAT(changes_of(result.rolled_back), testing::Not(testing::Contains("")));
}

// Data that does not fit in memory: each thread gets 100 samples a second from storage.
Machine remote_storage() {
    return {.cores = 8,
            .gpu = true,
            .fetch = 100,
            .data_bytes = 1'000'000'000'000,
            .load = 0.0001,
            .step = 0.0001,
            .cached_load = 0.0001};
}

TEST(Tuner, MoreWorkersReadMoreFromSlowStorage) {
    Machine machine = remote_storage();
    machine.cached_load = 1;  // the cache is of no use
    const TuneResult result = tune(photos(), {"data.workers=1"}, {}, opener(machine));
    ASSERT_FALSE(result.kept.empty());
    EXPECT_THAT(text_of(result.kept[0].change), testing::HasSubstr("data.workers"));
    EXPECT_GT(result.kept[0].predicted.value(), 10);
}

TEST(Tuner, PackedDataAreFetchedByTheirBytes) {
    Machine machine = remote_storage();
    machine.cached_load = 1;  // the cache is of no use
    const std::string path = testing::TempDir() + "/dct.stk";
    const auto pack = [&](const PackRequest& request) -> std::optional<PackedPart> {
        EXPECT_GT(request.seconds, 0);
        if (request.codec != "dct") {
            return std::nullopt;
        }
        std::ofstream(path) << "packed";
        return PackedPart{.path = path, .bytes_per_sample = 1e12 / 5000 / 3};
    };
    const TuneResult result = tune(photos(), {"data.workers=16"}, {.pack_sample = pack}, opener(machine));
    ASSERT_THAT(result.rolled_back,
                testing::Contains(testing::Field(&TriedChange::pack_codec, "dct")));  // it brings nothing here
    const auto tried = std::ranges::find(result.rolled_back, "dct", &TriedChange::pack_codec);
    EXPECT_NEAR(tried->predicted.value(), 3, 0.2);
    EXPECT_FALSE(std::filesystem::exists(path));
}

// The data are in memory. Packed as pixels they would not be, although the part that is measured is.
TEST(Tuner, PackedDataThatExceedMemoryAreFetched) {
    Machine machine = remote_storage();
    machine.data_bytes = 1'000'000'000;
    machine.load = 0.010;
    machine.fails = "data.cache=\"ram\"";
    const OpenTrial open = opener(machine);
    const OpenTrial packed = [&](TrialSpec spec) {
        for (std::string& set : spec.sets) {
            set = set.starts_with("data.train=") ? "data.cache=\"packed\"" : set;
        }
        return open(spec);
    };
    const std::string path = testing::TempDir() + "/raw.stk";
    const auto pack = [&](const PackRequest& request) -> std::optional<PackedPart> {
        if (request.codec != "raw") {
            return std::nullopt;
        }
        std::ofstream(path) << "packed";
        return PackedPart{.path = path, .bytes_per_sample = 1e12 / 5000};
    };
    const TuneResult result = tune(photos(), {"data.workers=8"}, {.pack_sample = pack}, packed);
    EXPECT_THAT(result.suggested, testing::IsEmpty());
    EXPECT_THAT(result.rolled_back, testing::Not(testing::Contains(testing::Field(&TriedChange::pack_codec, "raw"))));
    EXPECT_FALSE(std::filesystem::exists(path)) << "it promises nothing and is never tried";
}

TEST(Tuner, ASmallCacheIsMadeLargeEnough) {
    Machine machine;
    const Recipe recipe = parse_recipe("[data]\ntrain = \"photos\"\nworkers = 0\ncache_bytes = 1000\n", "photos.toml");
    const TuneResult result = tune(recipe, {}, {}, opener(machine));
    EXPECT_THAT(changes_of(result.kept),
                testing::Contains(testing::StartsWith("data.cache = \"ram\", data.cache_bytes = \"1GiB\"")));
}

// The recipe's budget is too small for a trial's samples.
TEST(Tuner, ACacheIsSizedByAllThatATrialReads) {
    Machine machine{.sample_bytes = 700'000, .cache_bytes = 100 << 20};
    const Recipe recipe =
        parse_recipe("[data]\ntrain = \"photos\"\nworkers = 0\ncache_bytes = \"100MiB\"\n", "photos.toml");
    const TuneResult result = tune(recipe, {}, {}, opener(machine));
    EXPECT_THAT(changes_of(result.kept),
                testing::Contains(testing::StartsWith("data.cache = \"ram\", data.cache_bytes = \"5GiB\"")));
}

// Three times as many samples of validation as of training: a cache of 8000 bytes has 2000 for the 5000 of training.
TEST(Tuner, TheCacheHasRoomForValidationData) {
    const Recipe recipe = parse_recipe("[data]\ntrain = \"photos\"\nworkers = 0\ncache_bytes = 8000\n", "photos.toml");
    for (const auto& [samples, change] :
         {std::pair(15'000, "data.cache = \"ram\", data.cache_bytes = \"1GiB\", data.workers = 1"),
          std::pair(0, "data.cache = \"ram\", data.workers = 1")}) {
        Machine machine;
        const auto val = [count = samples]() -> std::optional<std::int64_t> { return count; };
        const TuneResult result = tune(recipe, {}, {.val_samples = val}, opener(machine));
        EXPECT_THAT(changes_of(result.kept), testing::Contains(change));
    }
}

TEST(Tuner, AFailingTrialIsNotTheEnd) {
    Machine machine{.fails = "data.cache=\"ram\""};
    const TuneResult result = tune(photos(), {}, {}, opener(machine));
    ASSERT_FALSE(result.rolled_back.empty());
    EXPECT_THAT(result.rolled_back, testing::Contains(testing::Field(&TriedChange::reason, "no memory")));
    EXPECT_THAT(changes_of(result.kept), testing::Contains(testing::HasSubstr("data.workers")));
}

TEST(Tuner, AMachineThatHoldsOneTrialIsTuned) {
    Machine machine{.holds = 1};
    const TuneResult result = tune(photos(), {}, {}, opener(machine));
    EXPECT_THAT(changes_of(result.kept), testing::Contains(testing::HasSubstr("data.workers")));
    EXPECT_GT(result.tuned, 1.5 * result.baseline);
}

TEST(Tuner, ATrialThatEndsOnceIsOpenedAgain) {
    Machine sound;
    tune(photos(), {}, {}, opener(sound));
    for (int failing = 7; failing < sound.measured; ++failing) {
        Machine machine{.fails_at = failing};
        const TuneResult result = tune(photos(), {}, {}, opener(machine));
        EXPECT_LE(std::ranges::count(result.rolled_back, "ended", &TriedChange::reason), 1) << failing;
    }
}

TEST(Prober, OneDisturbedMeasurementCostsNothing) {
    for (int disturbed = 0; disturbed <= 12; ++disturbed) {
        Machine machine{.noise = 0, .disturbed_at = disturbed};
        const Costs costs = probe(opener(machine), {}, Part::both, {.seconds = 0.4}).costs;
        ASSERT_EQ(costs.step.size(), 2U);
        ASSERT_EQ(costs.load.size(), 2U);
        EXPECT_NEAR(costs.step[0].seconds, machine.step, 1e-6) << disturbed;
        EXPECT_NEAR(costs.step[1].seconds, machine.step / 2, 1e-6) << disturbed;
        EXPECT_NEAR(costs.load[0].seconds, machine.load, 1e-6) << disturbed;
        EXPECT_NEAR(costs.load[1].seconds, machine.load / 2, 1e-6) << disturbed;
    }
}

TEST(Tuner, WorkersThatOnlyFitAloneAreMeasuredAlone) {
    Machine machine{.most_beside = 1};
    const TuneResult result = tune(photos(), {}, {}, opener(machine));
    ASSERT_FALSE(result.kept.empty());
    Machine roomy;
    EXPECT_NEAR(*result.kept[0].predicted, *tune(photos(), {}, {}, opener(roomy)).kept[0].predicted, 0.1);
}

TEST(Tuner, OneWorkerIsEnoughToPredict) {
    Machine machine{.cores = 64, .fetch = 1000, .data_bytes = std::int64_t{1} << 40, .most_threads = 16};
    EXPECT_GT(tune(photos(), {}, {}, opener(machine)).baseline, 0);
    machine.most_threads = 0;
    EXPECT_THROW(tune(photos(), {}, {}, opener(machine)), TrialFailed);
}

TEST(Tuner, ARecipeThatCannotBeMeasuredIsAnError) {
    Machine machine{.fails = "data.workers=0"};
    EXPECT_THROW(tune(photos(), {"data.workers=0"}, {}, opener(machine)), TrialFailed);
}

TEST(Tuner, StoppingKeepsWhatWasFound) {
    Machine machine{.stops_after = 5};
    const TuneResult result = tune(photos(), {}, {}, opener(machine));
    EXPECT_TRUE(result.interrupted);
    EXPECT_FALSE(result.kept.empty());
    EXPECT_GT(result.tuned, result.baseline);
}

TEST(Tuner, EndsWhenTheTimeIsSpent) {
    Machine machine;
    const TuneResult result = tune(photos(), {}, {.budget_seconds = 0}, opener(machine));
    EXPECT_TRUE(result.kept.empty());
    EXPECT_FALSE(result.interrupted);
    EXPECT_THAT(changes_of(result.untried), testing::Contains(testing::HasSubstr("data.cache")));
    EXPECT_EQ(std::ranges::count_if(changes_of(result.untried),
                                    [](const std::string& text) { return text.starts_with("data.workers"); }),
              1)
        << "only the best number of workers";
    for (const TriedChange& each : result.untried) {
        EXPECT_FALSE(each.measured.has_value());
        EXPECT_FALSE(each.reason.empty());
    }
}

TEST(Tuner, PackingIsSuggestedUnlessItMayBeKept) {
    const auto pack = [](const PackRequest& request) {
        return request.codec == "raw" ? std::optional(PackedPart{.path = "sample.stk", .bytes_per_sample = 1})
                                      : std::nullopt;
    };
    Machine machine;
    const OpenTrial open = opener(machine);
    // Packed data are as cheap as cached data.
    const OpenTrial packed = [&](TrialSpec spec) {
        for (std::string& set : spec.sets) {
            set = set.starts_with("data.train=") ? "data.cache=\"packed\"" : set;
        }
        return open(spec);
    };
    machine.fails = "data.cache=\"ram\"";
    const TuneResult suggested = tune(photos(), {}, {.pack_sample = pack}, packed);
    ASSERT_EQ(suggested.suggested.size(), 1);
    EXPECT_EQ(suggested.suggested[0].pack_codec, "raw");
    EXPECT_THAT(suggested.suggested[0].change, testing::IsEmpty());  // the sample is gone
    const TuneResult kept = tune(photos(), {}, {.keep_packed = true, .pack_sample = pack}, packed);
    EXPECT_TRUE(kept.suggested.empty());
    const auto packing = std::ranges::find(kept.kept, "raw", &TriedChange::pack_codec);
    ASSERT_NE(packing, kept.kept.end());
    EXPECT_EQ(text_of(packing->change), "data.train = \"sample.stk\"");
    EXPECT_THAT(packing->before, testing::ElementsAre("\"photos\""));
}

}  // namespace
}  // namespace stoker::tuner_test
