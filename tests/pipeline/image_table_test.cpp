// Images that are read once and then gathered: the batches of the ordinary loader, bit for bit, for any number of
// workers, with bad samples, views and a restored position; and the data sets that cannot be held so.
#include "stoker/pipeline/image_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/gathered_floats.h"
#include "pipeline/cache/host_images.h"
#include "pipeline/pixel_source.h"
#include "stoker/pipeline/loader.h"

namespace stoker::image_table_test {
namespace {

using testing::difference;
using ::testing::HasSubstr;
using testing::HostImages;
using testing::PixelDataset;
using testing::Seen;

constexpr std::int64_t kMost = 1 << 30;

// The floats that a device makes of a field of draws.
std::vector<float> gathered(const Batch& batch, const FieldSpec& spec) {
    const TensorView draws = batch.field(spec.name);
    const DeferredGather& from = *spec.deferred->gather;
    return testing::gathered_floats({.images = from.images->data,
                                     .from = from.images->size,
                                     .channels = from.images->channels,
                                     .draws = reinterpret_cast<const GatherDraw*>(draws.data),
                                     .n = static_cast<int>(batch.size()),
                                     .to = from.to,
                                     .ops = from.ops,
                                     .factors = spec.deferred->factors,
                                     .layout = spec.deferred->layout});
}

Seen see_any(Batch& batch) {
    const FieldSpec& image = batch.fields().front();
    if (!image.deferred) {
        return testing::see(batch);
    }
    const auto labels = batch.field(kLabelField).as<std::int64_t>();
    const auto indices = batch.field(kIndexField).as<std::int64_t>();
    Seen seen{.epoch = batch.epoch(),
              .number = batch.number(),
              .image = gathered(batch, image),
              .labels = {labels.begin(), labels.end()},
              .indices = {indices.begin(), indices.end()},
              .keys = {},
              .fields = {},
              .hash = batch.hash()};
    for (const FieldSpec& spec : batch.fields()) {
        if (spec.deferred && spec.name != kImageField) {
            const std::vector<float> floats = gathered(batch, spec);
            seen.fields[spec.name] = {reinterpret_cast<const char*>(floats.data()), floats.size() * sizeof(float)};
        }
    }
    for (std::int64_t i = 0; i < batch.size(); ++i) {
        seen.keys.push_back(batch.payload(kKeyField, i));
    }
    return seen;
}

struct Epochs {
    std::vector<Seen> batches;
    std::vector<std::string> bad;
};

Epochs see_epochs(Loader& loader, int epochs) {
    Epochs seen;
    while (epochs > 0) {
        const auto batch = loader.next();
        if (batch == nullptr) {
            --epochs;
            continue;
        }
        seen.batches.push_back(see_any(*batch));
        for (const BadSample& bad : batch->bad_samples()) {
            seen.bad.push_back(
                fmt::format("{} {} {} {} {}", bad.item, bad.index, bad.key, bad.reason, bad.replaced_by.value_or(-1)));
        }
    }
    return seen;
}

std::shared_ptr<PixelDataset> small_images() {
    return std::make_shared<PixelDataset>(37, 12, 10, 3);
}

std::shared_ptr<PixelDataset> with_bad() {
    auto dataset = small_images();
    for (const std::int64_t index : {0, 5, 30}) {
        dataset->failures[index] = [] {
            throw DataError({.path = "", .offset = 7}, {.where = "x", .expected = "good bytes", .got = "bad ones"});
        };
    }
    dataset->failures[11] = [] { throw std::runtime_error("an error of a user's data set"); };
    return dataset;
}

Transform padded_ops() {
    return Transform(
        std::vector<Op>{CenterCrop{.height = 10, .width = 9},
                        RandomCrop{.height = 10, .width = 9, .padding = {2, 2, 2, 2}, .mode = PaddingMode::reflect},
                        HorizontalFlip{}, PixelOp(RandomErasing{.value = std::nullopt}), kImageNetNormalize});
}

Transform color_ops() {
    const ColorJitter jitter{{0.5F, 1.5F}, {0.5F, 1.5F}, {0.5F, 1.5F}, {-0.2F, 0.2F}};
    return Transform(std::vector<Op>{RandomResizedCrop{.height = 9, .width = 8}, PixelOp(jitter), HorizontalFlip{},
                                     PixelOp(RandomGrayscale{.probability = 0.5F}), PixelOp(RandomErasing{}),
                                     kImageNetNormalize});
}

TEST(ImageTable, GivesTheBatchesOfTheLoader) {
    for (const Transform& transform :
         {testing::random_ops(), padded_ops(), color_ops(), Transform{kCifar10Normalize}}) {
        for (const Layout layout : {Layout::chw, Layout::hwc}) {
            LoaderOptions options{.batch_size = 8, .seed = 3, .bad_samples = 4, .layout = layout, .views = 2};
            Loader plain(with_bad(), transform, options);
            const Epochs expected = see_epochs(plain, 2);
            ASSERT_EQ(expected.bad.size(), 8U);
            for (const int workers : {0, 1, 3}) {
                const auto dataset = with_bad();
                HostImages memory;
                LoadedImages loaded = load_images(*dataset, transform, memory, kMost, workers);
                ASSERT_EQ(loaded.why_not, "");
                options.workers = workers;
                options.images = IndexedImages{loaded.table};
                Loader loader(dataset, transform, options);
                EXPECT_EQ(loader.image_shape(), plain.image_shape());
                EXPECT_EQ(loader.field_specs().front().sample_bytes(), sizeof(GatherDraw));
                const std::int64_t reads = dataset->reads;
                const Epochs own = see_epochs(loader, 2);
                EXPECT_EQ(difference(own.batches, expected.batches), "") << workers;
                EXPECT_EQ(own.bad, expected.bad);
                EXPECT_EQ(dataset->reads, reads) << "nothing is read again";
            }
        }
    }
}

TEST(ImageTable, ARestoredLoaderContinues) {
    const auto dataset = small_images();
    HostImages memory;
    const Transform transform = padded_ops();
    const LoaderOptions options{
        .batch_size = 8, .seed = 3, .images = IndexedImages{load_images(*dataset, transform, memory, kMost, 1).table}};
    Loader first(dataset, transform, options);
    for (int i = 0; i < 3; ++i) {
        first.next();
    }
    const LoaderState state = first.state();
    Loader second(dataset, transform, options);
    second.restore(state);
    EXPECT_EQ(difference(see_epochs(second, 2).batches, see_epochs(first, 2).batches), "");
    Loader plain(dataset, transform, {.batch_size = 8, .seed = 3});
    plain.restore(state);  // a checkpoint of the one is a checkpoint of the other
    Loader third(dataset, transform, options);
    third.restore(state);
    EXPECT_EQ(difference(see_epochs(third, 1).batches, see_epochs(plain, 1).batches), "");
}

TEST(ImageTable, TheFirstBadSampleEndsARunWithoutABudget) {
    const auto dataset = with_bad();
    const Transform transform = padded_ops();
    HostImages memory;
    LoaderOptions options{.batch_size = 8, .workers = 0, .shuffle = false, .bad_samples = 1};
    options.images = IndexedImages{load_images(*dataset, transform, memory, kMost, 1).table};
    Loader loader(dataset, transform, options);
    try {
        loader.next();
        FAIL() << "two bad samples in the first batch";
    } catch (const TooManyBadSamples& error) {
        EXPECT_THAT(error.what(), HasSubstr("pixels/00005"));
        EXPECT_EQ(error.samples().size(), 2U);
    }
}

TEST(ImageTable, ASampleWithALabelOutsideTheClassesIsBad) {
    const auto dataset = small_images();
    dataset->unlabelled = {4};
    HostImages memory;
    const Transform transform = padded_ops();
    const LoaderOptions options{.batch_size = 8,
                                .workers = 0,
                                .shuffle = false,
                                .bad_samples = 1,
                                .classes = 10,
                                .images = IndexedImages{load_images(*dataset, transform, memory, kMost, 1).table}};
    Loader loader(dataset, transform, options);
    const Epochs seen = see_epochs(loader, 1);
    ASSERT_EQ(seen.bad.size(), 1U);
    EXPECT_THAT(seen.bad.front(), HasSubstr("4 4 pixels/00004 expected a class from 0 to 9, got none"));
}

std::string why_not(const Dataset& dataset, const Transform& transform, std::int64_t most = kMost,
                    std::int64_t room = kMost) {
    HostImages memory;
    memory.room = room;
    const LoadedImages loaded = load_images(dataset, transform, memory, most, 2);
    EXPECT_EQ(loaded.table == nullptr, !loaded.why_not.empty());
    return loaded.why_not;
}

TEST(ImageTable, OtherDataSetsAreNotHeldAndTheReasonIsSaid) {
    const Transform transform = padded_ops();
    auto taller = small_images();
    taller->taller = {20};
    EXPECT_THAT(why_not(*taller, Transform{kImageNetNormalize}), HasSubstr("image 20 has 3 x 13 x 10"));
    EXPECT_EQ(why_not(*taller, transform), "") << "center_crop gives all images one size";
    EXPECT_THAT(why_not(*PixelDataset::with_fields(9), transform), HasSubstr("fields beside image and label: mask"));
    const std::int64_t bytes = std::int64_t{37} * 10 * 9 * 3;
    EXPECT_EQ(why_not(*small_images(), transform, bytes), "");
    EXPECT_THAT(why_not(*small_images(), transform, bytes - 1), HasSubstr("data.cache_bytes"));
    EXPECT_THAT(why_not(*small_images(), transform, kMost, bytes - 1), HasSubstr("there is no room"));
    HostImages memory;
    EXPECT_EQ(load_images(*small_images(), transform, memory, kMost, 1,
                          [](ImageSize size) { return fmt::format("{} x {}", size.height, size.width); })
                  .why_not,
              "10 x 9");
    EXPECT_EQ(memory.writes, 0);
}

// A failing disk is not a bad sample.
TEST(ImageTable, AnErrorOfTheSystemIsRethrown) {
    const auto dataset = small_images();
    dataset->failures[20] = [] { throw IoError({.where = "disk", .expected = "bytes", .got = "an error"}); };
    HostImages memory;
    EXPECT_THROW(load_images(*dataset, padded_ops(), memory, kMost, 2), IoError);
}

TEST(ImageTable, ALoaderRefusesImagesThatDoNotFit) {
    const auto dataset = small_images();
    HostImages memory;
    const Transform transform = padded_ops();
    const LoaderOptions options{.images = IndexedImages{load_images(*dataset, transform, memory, kMost, 1).table}};
    EXPECT_THROW(Loader(std::make_shared<PixelDataset>(36), transform, options), InvalidArgument);
    EXPECT_THROW(Loader(dataset, Transform(std::vector<Op>{PixelOp(TrivialAugmentWide{})}), options), InvalidArgument);
    EXPECT_THROW(Loader(PixelDataset::with_fields(37), Transform(), options), InvalidArgument);
}

}  // namespace
}  // namespace stoker::image_table_test
