// The loader under samplers that draw samples more than once, and with every kind of cache: the same bytes in each
// case.
#include <gtest/gtest.h>

#include "pipeline/pixel_source.h"
#include "stoker/base/error.h"
#include "support/temp_dir.h"

namespace stoker::loader_order_test {
namespace {

using testing::PixelDataset;
using testing::random_ops;
using testing::see;
using testing::see_epochs;
using testing::Seen;

std::vector<SamplerOptions> samplers() {
    return {{.size = 60, .seed = 4, .epoch_samples = 150},
            {.size = 60, .seed = 4, .window = 10, .shards = {20, 1, 30, 9}},
            {.size = 60, .seed = 4, .groups = {{.weight = 5, .first = 0, .size = 6}, {.first = 6, .size = 54}}}};
}

std::vector<Seen> run(const SamplerOptions& sampler, LoaderOptions options, int epochs) {
    options.batch_size = 8;
    options.seed = 4;
    options.sampler = make_sampler(sampler);
    Loader loader(PixelDataset::with_fields(60), random_ops(), options);
    return see_epochs(loader, epochs);
}

TEST(LoaderOrder, AnyNumberOfWorkersSeesTheSame) {
    for (const SamplerOptions& sampler : samplers()) {
        const auto alone = run(sampler, {.workers = 0}, 3);
        for (const int workers : {1, 3, 8}) {
            EXPECT_EQ(testing::difference(run(sampler, {.workers = workers}, 3), alone), "");
        }
    }
}

TEST(LoaderOrder, ARepeatedSampleIsAugmentedAnew) {
    const auto batches = run({.size = 60, .seed = 4, .epoch_samples = 150}, {.workers = 1}, 1);
    std::map<std::int64_t, std::set<std::vector<float>>> images;
    for (const Seen& batch : batches) {
        const std::size_t image = batch.image.size() / batch.indices.size();
        for (std::size_t i = 0; i < batch.indices.size(); ++i) {
            const auto begin = batch.image.begin() + static_cast<std::ptrdiff_t>(i * image);
            images[batch.indices[i]].emplace(begin, begin + static_cast<std::ptrdiff_t>(image));
        }
    }
    for (const auto& [index, seen] : images) {
        EXPECT_GE(seen.size(), 2) << "sample " << index;
    }
}

TEST(LoaderOrder, RestoreGoesOnInAnyOrder) {
    for (const SamplerOptions& sampler : samplers()) {
        LoaderOptions options{.batch_size = 8, .workers = 2, .seed = 4};
        options.sampler = make_sampler(sampler);
        const auto all = run(sampler, {.workers = 0}, 3);
        for (std::size_t cut = 0; cut < all.size(); cut += 5) {
            Loader loader(PixelDataset::with_fields(60), random_ops(), options);
            LoaderState state = loader.state();
            state.epoch = all[cut].epoch;
            state.batch = all[cut].number;
            loader.restore(state);
            EXPECT_EQ(see(*loader.next()), all[cut]);
        }
    }
}

TEST(LoaderOrder, AStateFitsItsOrderAlone) {
    for (const SamplerOptions& sampler : samplers()) {
        LoaderOptions options{.batch_size = 8, .workers = 0, .seed = 4};
        Loader plain(PixelDataset::with_fields(60), random_ops(), options);
        options.sampler = make_sampler(sampler);
        Loader other(PixelDataset::with_fields(60), random_ops(), options);
        EXPECT_THROW(other.restore(plain.state()), InvalidArgument);
        EXPECT_NO_THROW(other.restore(other.state()));
    }
}

TEST(LoaderOrder, AnOrderOfOtherDataOrSeedIsRefused) {
    const auto source = PixelDataset::with_fields(60);
    LoaderOptions options{.batch_size = 8, .workers = 0, .seed = 4};
    options.sampler = make_sampler({.size = 61, .seed = 4});
    EXPECT_THROW(Loader(source, random_ops(), options), InvalidArgument);
    options.sampler = make_sampler({.size = 60, .seed = 5});
    EXPECT_THROW(Loader(source, random_ops(), options), InvalidArgument);
}

TEST(LoaderOrder, EveryCacheGivesTheSameBytes) {
    const testing::TempDir directory;
    for (const SamplerOptions& sampler : samplers()) {
        const auto alone = run(sampler, {.workers = 0}, 3);
        for (const std::string& where : {std::string(), directory.path().string()}) {
            for (const bool encoded : {false, true}) {
                for (const std::int64_t bytes : {3000, 1 << 20}) {
                    LoaderOptions options{.workers = 2};
                    options.images =
                        PixelImages{.cache = {.bytes = bytes, .directory = where}, .cache_encoded = encoded};
                    EXPECT_EQ(testing::difference(run(sampler, options, 3), alone), "") << where << encoded << bytes;
                }
            }
        }
    }
}

TEST(LoaderOrder, ACacheServesTheLaterEpochs) {
    const testing::TempDir directory;
    for (const std::string& where : {std::string(), directory.path().string()}) {
        for (const bool encoded : {false, true}) {
            const auto source = PixelDataset::with_fields(60);
            LoaderOptions options{.batch_size = 60, .workers = 0, .seed = 4};
            options.images = PixelImages{.cache = {.bytes = 1 << 20, .directory = where}, .cache_encoded = encoded};
            Loader loader(source, random_ops(), options);
            see_epochs(loader, 4);
            EXPECT_EQ(source->reads, 1 + 60);
            EXPECT_EQ(loader.stats().cache_stop_reason, "");
        }
    }
}

TEST(LoaderOrder, ACacheKeepsTheReasonOfABadSampleOut) {
    const auto source = PixelDataset::with_fields(60);
    source->failures[3] = [] { throw DataError({}, {.where = "x", .expected = "good bytes", .got = "bad ones"}); };
    LoaderOptions options{.batch_size = 60, .workers = 0, .seed = 4, .bad_samples = 1};
    options.images = PixelImages{.cache = {.bytes = 1 << 20}};
    Loader loader(source, random_ops(), options);
    for (int epoch = 0; epoch < 3; ++epoch) {
        const auto batch = loader.next();
        ASSERT_EQ(batch->bad_samples().size(), 1);
        EXPECT_EQ(batch->bad_samples().front().index, 3);
        EXPECT_TRUE(batch->bad_samples().front().replaced_by.has_value());
        loader.next();
    }
}

}  // namespace
}  // namespace stoker::loader_order_test
