// Masks, boxes, further images and views follow the image: with ops that move whole pixels they equal it pixel by
// pixel, for any number of workers and with each cache.
#include <gmock/gmock.h>

#include <map>

#include "pipeline/pixel_source.h"
#include "stoker/ops/nearest.h"
#include "support/temp_dir.h"

namespace stoker {
namespace {

constexpr int kHeight = 40;
constexpr int kWidth = 32;

// Sample i: an image of three equal channels that is 1 + i % 3 in one rectangle and 0 elsewhere, the same as a mask,
// the rectangle as a box, the image again as `pair`, a vector, a label of two flags, and tokens of any length.
class OverlayDataset final : public Dataset {
  public:
    std::int64_t size() const override { return 24; }
    std::span<const Field> fields() const override { return fields_; }
    std::string path() const override { return "made-up"; }

    static Box rectangle(std::int64_t index) {
        const int i = static_cast<int>(index);
        return {.top = 3 + i % 7, .left = 2 + i % 5, .height = 9 + i % 11, .width = 6 + i % 13};
    }

    void read(std::int64_t index, Sample& sample) const override {
        const Box box = rectangle(index);
        sample.label = index % 3;
        fill(sample, box, 3, index);
        fill(sample.field(0), box, 1, index);
        const auto left = static_cast<float>(box.left);
        const auto top = static_cast<float>(box.top);
        const std::array<float, 8> boxes = {
            left,   top,    left + static_cast<float>(box.width), top + static_cast<float>(box.height), 0, 0,
            kWidth, kHeight};
        sample.field(1).copy_elements(std::span(boxes).first(index == 5 ? 0u : 8u));
        fill(sample.field(2), box, 3, index);
        sample.field(3).copy_elements(std::array{static_cast<double>(index), 0.5});
        sample.field(4).copy_elements(std::array{index % 2, std::int64_t{1}});
        sample.field(5).copy_elements(std::vector<std::int64_t>(static_cast<std::size_t>(index % 4), index));
        if (index == small_mask) {
            sample.field(0).set_raw(sample.field(0).bytes.first(kHeight), kHeight, 1, 1);
        }
    }

    std::int64_t small_mask = -1;

  private:
    static void fill(FieldValue& value, const Box& box, int channels, std::int64_t index) {
        Image image(kHeight, kWidth, channels);
        for (int y = 0; y < kHeight; ++y) {
            for (int x = 0; x < kWidth * channels; ++x) {
                const int column = x / channels;
                const bool inside =
                    y >= box.top && y < box.top + box.height && column >= box.left && column < box.left + box.width;
                image.view().row(y)[x] = static_cast<std::uint8_t>(inside ? 1 + index % 3 : 0);
            }
        }
        value.storage.resize(image.bytes());
        std::memcpy(value.storage.data(), image.view().data, image.bytes());
        value.set_raw(value.storage.bytes(), kHeight, kWidth, channels);
    }

    std::vector<Field> fields_ = {
        {.name = "mask", .kind = FieldKind::mask, .dtype = DType::uint8},
        {.name = "boxes", .kind = FieldKind::boxes, .dtype = DType::float32, .shape = {-1, 4}},
        {.name = "pair", .kind = FieldKind::image, .dtype = DType::uint8},
        {.name = "value", .kind = FieldKind::value, .dtype = DType::float64, .shape = {2}},
        {.name = "flags", .kind = FieldKind::label, .dtype = DType::int64, .shape = {2}},
        {.name = "tokens", .kind = FieldKind::tokens, .dtype = DType::int64, .shape = {-1}}};
};

// Ops that move whole pixels.
Transform moving_ops() {
    return Transform(std::vector<Op>{RandomCrop{.height = 30, .width = 28, .padding = {2, 1, 3, 2}}, HorizontalFlip{},
                                     PixelOp(VerticalFlip{}), PixelOp(RandomRotation{.low = -40, .high = 40}),
                                     PixelOp(RandomAffine{.degrees = {-20, 20}, .translate = {0.2f, 0.1f}}),
                                     CenterCrop{.height = 26, .width = 34}});
}

// The first pixel of channel 0 of image i; the pixels of a channel follow each other.
std::span<const std::uint8_t> channel(const TensorView& image, std::int64_t i) {
    const auto pixels = static_cast<std::size_t>(image.shape[2] * image.shape[3]);
    const auto all = image.as<std::uint8_t>();
    return std::span<const std::uint8_t>(all.data(), all.size())
        .subspan(static_cast<std::size_t>(i * image.shape[1]) * pixels, pixels);
}

void expect_fields_follow(Batch& batch, std::int64_t& seen) {
    const TensorView image = batch.field(kImageField);
    const TensorView mask = batch.field("mask");
    const TensorView pair = batch.field("pair");
    ASSERT_EQ(mask.shape, (Shape{batch.size(), image.shape[2], image.shape[3]}));
    const auto pixels = static_cast<std::size_t>(image.shape[2] * image.shape[3]);
    const auto indices = batch.field(kIndexField).as<std::int64_t>();
    for (std::int64_t i = 0; i < batch.size(); ++i, ++seen) {
        const std::int64_t index = indices[static_cast<std::size_t>(i)];
        EXPECT_THAT(std::span<const std::uint8_t>(mask.as<std::uint8_t>())
                        .subspan(static_cast<std::size_t>(i) * pixels, pixels),
                    ::testing::ElementsAreArray(channel(image, i)))
            << "sample " << index;
        EXPECT_THAT(channel(pair, i), ::testing::ElementsAreArray(channel(image, i)));
        EXPECT_EQ(batch.field("value").as<double>()[static_cast<std::size_t>(2 * i)], static_cast<double>(index));
        EXPECT_EQ(batch.field("flags").as<std::int64_t>()[static_cast<std::size_t>(2 * i)], index % 2);
        const auto offsets = batch.ragged("tokens").offsets;
        EXPECT_EQ(offsets[static_cast<std::size_t>(i) + 1] - offsets[static_cast<std::size_t>(i)], index % 4);
    }
}

TEST(LoaderOverlay, MasksAndFurtherImagesFollowTheImage) {
    const testing::TempDir folder;
    std::vector<LoaderOptions> all = {{.workers = 0}, {.workers = 3}};
    for (const bool encoded : {false, true}) {
        all.push_back({.images = PixelImages{.cache = {.bytes = 1 << 22}, .cache_encoded = encoded}});
        all.push_back(
            {.images = PixelImages{.cache = {.bytes = 1 << 22, .directory = folder.path()}, .cache_encoded = encoded}});
    }
    for (LoaderOptions& options : all) {
        options.batch_size = 7;
        std::get<PixelImages>(options.images).dtype = DType::uint8;
        Loader loader(std::make_shared<OverlayDataset>(), moving_ops(), options);
        std::int64_t seen = 0;
        for (int epoch = 0; epoch < 3; ++epoch) {
            while (const auto batch = loader.next()) {
                expect_fields_follow(*batch, seen);
            }
        }
        EXPECT_EQ(seen, 72);
    }
}

// The smallest box around the pixels of image i that are not 0.
std::array<float, 4> bounds(const TensorView& image, std::int64_t i) {
    const auto width = static_cast<std::size_t>(image.shape[3]);
    const auto pixels = channel(image, i);
    std::array<float, 4> box = {1e9f, 1e9f, 0, 0};
    for (std::size_t at = 0; at < pixels.size(); ++at) {
        if (pixels[at] != 0) {
            const auto x = static_cast<float>(at % width);
            const auto y = static_cast<float>(at / width);
            box = {std::min(box[0], x), std::min(box[1], y), std::max(box[2], x + 1), std::max(box[3], y + 1)};
        }
    }
    return box;
}

TEST(LoaderOverlay, BoxesFollowCropsAndFlips) {
    const Transform ops(std::vector<Op>{CenterCrop{.height = 38, .width = 30},
                                        RandomCrop{.height = 30, .width = 28, .padding = {2, 1, 3, 2}},
                                        HorizontalFlip{}, PixelOp(VerticalFlip{})});
    for (const std::int64_t cache : {0, 1 << 22}) {
        Loader loader(std::make_shared<OverlayDataset>(), ops,
                      {.batch_size = 24, .images = PixelImages{.dtype = DType::uint8, .cache = {.bytes = cache}}});
        for (int epoch = 0; epoch < 2; ++epoch) {
            const auto batch = loader.next();
            const RaggedView boxes = batch->ragged("boxes");
            const auto indices = batch->field(kIndexField).as<std::int64_t>();
            for (std::size_t i = 0; i < 24; ++i) {
                const std::int64_t count = boxes.offsets[i + 1] - boxes.offsets[i];
                ASSERT_EQ(count, indices[i] == 5 ? 0 : 2);
                if (count > 0) {
                    const auto first =
                        boxes.values.as<float>().subspan(static_cast<std::size_t>(4 * boxes.offsets[i]), 4);
                    EXPECT_THAT(first, ::testing::ElementsAreArray(
                                           bounds(batch->field(kImageField), static_cast<std::int64_t>(i))))
                        << "sample " << indices[i];
                }
            }
            EXPECT_EQ(loader.next(), nullptr);
        }
    }
}

TEST(LoaderOverlay, AResizedCropOfAMaskTakesTheNearestPixels) {
    const RandomResizedCrop op{.height = 20, .width = 24};
    Loader loader(std::make_shared<OverlayDataset>(), Transform(std::vector<Op>{op}), {.batch_size = 24, .seed = 9});
    const auto batch = loader.next();
    const auto indices = batch->field(kIndexField).as<std::int64_t>();
    for (std::size_t i = 0; i < 24; ++i) {
        Rng rng({.seed = 9, .sample = static_cast<std::uint64_t>(indices[i])});
        const Box crop = draw_random_resized_crop(op, kHeight, kWidth, rng);
        Sample sample;
        OverlayDataset().read(indices[i], sample);
        const ConstImageView mask{reinterpret_cast<const std::uint8_t*>(sample.fields[0].bytes.data()), kHeight, kWidth,
                                  1, kWidth};
        Image expected(20, 24, 1);
        resize_nearest(mask.crop(crop), expected.view());
        const auto found = batch->field("mask").as<std::uint8_t>().subspan(i * 480, 480);
        EXPECT_EQ(std::memcmp(found.data(), expected.view().data, 480), 0) << "sample " << indices[i];
    }
}

// For each sample of an epoch: its batch, its key, and the bytes of all fields.
std::map<std::int64_t, std::vector<std::string>> epoch_of(const LoaderOptions& options, std::int64_t begin = 0) {
    Loader loader(std::make_shared<OverlayDataset>(), moving_ops(), options);
    LoaderState state = loader.state();
    state.batch = begin;
    loader.restore(state);
    std::map<std::int64_t, std::vector<std::string>> samples;
    while (const auto batch = loader.next()) {
        const std::vector<FieldSpec>& specs = batch->fields();
        for (std::int64_t i = 0; i < batch->size(); ++i) {
            std::vector<std::string> values = {std::to_string(batch->number())};
            for (std::size_t at = 0; at < specs.size(); ++at) {
                if (specs[at].ragged) {
                    values.push_back(batch->payload(at, i));
                } else {
                    const auto item = batch->item(at, i);
                    values.emplace_back(reinterpret_cast<const char*>(item.data()), item.size());
                }
            }
            samples[batch->field(kIndexField).as<std::int64_t>()[static_cast<std::size_t>(i)]] = std::move(values);
        }
    }
    return samples;
}

TEST(LoaderOverlay, RanksTogetherHaveTheSamplesOfOne) {
    const LoaderOptions options{.batch_size = 8, .workers = 2, .epochs = 1, .seed = 4};
    const auto one = epoch_of(options);
    ASSERT_EQ(one.size(), 24u);
    for (const int ranks : {2, 4}) {
        std::map<std::int64_t, std::vector<std::string>> together;
        for (int rank = 0; rank < ranks; ++rank) {
            LoaderOptions own = options;
            own.rank = rank;
            own.world_size = ranks;
            together.merge(epoch_of(own));
        }
        EXPECT_EQ(together, one) << ranks;
    }
}

TEST(LoaderOverlay, ARestoredLoaderHasTheSameSamples) {
    const LoaderOptions options{.batch_size = 5, .epochs = 1, .seed = 4};
    const auto all = epoch_of(options);
    LoaderOptions other = options;
    other.workers = 3;
    const auto rest = epoch_of(other, 2);
    EXPECT_EQ(rest.size(), 14u);
    for (const auto& [index, values] : rest) {
        EXPECT_EQ(values, all.at(index)) << index;
    }
}

TEST(LoaderOverlay, PaddedFieldsHaveLengths) {
    Loader loader(
        std::make_shared<OverlayDataset>(), Transform(std::vector<Op>{}),
        {.batch_size = 24, .shuffle = false, .fields = {{.name = "tokens", .pad = 2}, {.name = "boxes", .pad = 3}}});
    const auto batch = loader.next();
    EXPECT_EQ(batch->field("boxes").shape, (Shape{24, 3, 4}));
    EXPECT_EQ(batch->field("tokens").shape, (Shape{24, 2}));
    const auto tokens = batch->field("tokens").as<std::int64_t>();
    for (std::int64_t i = 0; i < 24; ++i) {
        const auto at = static_cast<std::size_t>(i);
        const std::int64_t length = std::min<std::int64_t>(i % 4, 2);
        EXPECT_EQ(batch->field("tokens_length").as<std::int64_t>()[at], length);
        EXPECT_EQ(batch->field("boxes_length").as<std::int64_t>()[at], i == 5 ? 0 : 2);
        EXPECT_EQ(tokens[2 * at], length > 0 ? i : 0);
        EXPECT_EQ(tokens[2 * at + 1], length > 1 ? i : 0);
        EXPECT_EQ(batch->field("boxes").as<float>()[12 * at + 8], 0);
    }
}

TEST(LoaderOverlay, ViewsDifferAndAreTheSameForAnyWorkers) {
    std::vector<std::uint8_t> first;
    for (const int workers : {0, 3}) {
        Loader loader(std::make_shared<OverlayDataset>(), moving_ops(),
                      {.batch_size = 24, .workers = workers, .images = PixelImages{.dtype = DType::uint8}, .views = 3});
        const auto batch = loader.next();
        const auto one = batch->field("image").as<std::uint8_t>();
        const auto two = batch->field("image_2").as<std::uint8_t>();
        const auto three = batch->field("image_3").as<std::uint8_t>();
        EXPECT_FALSE(std::ranges::equal(one, two));
        EXPECT_FALSE(std::ranges::equal(two, three));
        if (workers == 0) {
            first.assign(two.begin(), two.end());
        }
        EXPECT_TRUE(std::ranges::equal(first, two));
        std::int64_t seen = 0;
        expect_fields_follow(*batch, seen);  // the first view's
    }
}

// The pixels that a cache keeps are written by the first view's ops unless each view has its own copy.
TEST(LoaderOverlay, ViewsAreTheSameWithACache) {
    const Transform ops(std::vector<Op>{Resize{.size = ImageSize{24, 24}},
                                        PixelOp(RandomRotation{.low = -40, .high = 40}),
                                        RandomResizedCrop{.height = 20, .width = 20}, PixelOp(VerticalFlip{})});
    std::vector<std::uint8_t> expected;
    for (const std::int64_t cache : {0, 1 << 22}) {
        Loader loader(std::make_shared<OverlayDataset>(), ops,
                      {.batch_size = 24,
                       .workers = 0,
                       .images = PixelImages{.dtype = DType::uint8, .cache = {.bytes = cache}},
                       .views = 3});
        const auto batch = loader.next();
        std::vector<std::uint8_t> found;
        for (const char* name : {"image", "image_2", "image_3"}) {
            const auto view = batch->field(name).as<std::uint8_t>();
            found.insert(found.end(), view.begin(), view.end());
        }
        expected = cache == 0 ? found : expected;
        EXPECT_EQ(found, expected);
    }
}

TEST(LoaderOverlay, AFieldMayHaveOpsOfItsOwn) {
    const auto own = std::make_shared<const Transform>(std::vector<Op>{CenterCrop{.height = 10, .width = 12}});
    Loader loader(std::make_shared<OverlayDataset>(), moving_ops(),
                  {.batch_size = 24, .fields = {{.name = "pair", .transform = own}}});
    EXPECT_EQ(loader.next()->field("pair").shape, (Shape{24, 3, 10, 12}));
}

// A kept mask and a kept image have different sizes.
TEST(LoaderOverlay, AMaskWithOpsOfItsOwnIsTheSameFromACache) {
    const auto own = std::make_shared<const Transform>(std::vector<Op>{CenterCrop{.height = 10, .width = 12}});
    const auto masks = [&](std::int64_t cache) {
        Loader loader(std::make_shared<OverlayDataset>(),
                      Transform(std::vector<Op>{CenterCrop{.height = 20, .width = 20}}),
                      {.batch_size = 24,
                       .images = PixelImages{.cache = {.bytes = cache}},
                       .fields = {{.name = "mask", .transform = own}}});
        std::vector<std::uint8_t> pixels;
        for (int epoch = 0; epoch < 2; ++epoch) {
            const auto batch = loader.next();
            EXPECT_EQ(batch->field("mask").shape, (Shape{24, 10, 12}));
            std::ranges::copy(batch->field("mask").as<std::uint8_t>(), std::back_inserter(pixels));
            loader.next();  // the end of the epoch
        }
        return pixels;
    };
    EXPECT_EQ(masks(1 << 22), masks(0));
}

TEST(LoaderOverlay, BoxesHaveNoOpsOfTheirOwn) {
    const auto own = std::make_shared<const Transform>(std::vector<Op>{CenterCrop{.height = 10, .width = 12}});
    EXPECT_THROW(Loader(std::make_shared<OverlayDataset>(), moving_ops(),
                        {.batch_size = 24, .fields = {{.name = "boxes", .transform = own}}}),
                 InvalidArgument);
}

TEST(LoaderOverlay, AMaskOfAnotherSizeIsABadSample) {
    const auto dataset = std::make_shared<OverlayDataset>();
    dataset->small_mask = 11;
    for (const std::int64_t cache : {0, 1 << 22}) {
        Loader loader(dataset, moving_ops(),
                      {.batch_size = 24, .bad_samples = 1, .images = PixelImages{.cache = {.bytes = cache}}});
        const auto batch = loader.next();
        ASSERT_EQ(batch->bad_samples().size(), 1u);
        EXPECT_EQ(batch->bad_samples()[0].reason, "expected the image's 40 x 32 pixels for mask, got 40 x 1");
    }
}

TEST(LoaderOverlay, OpsThatMasksCannotFollowAreRefused) {
    EXPECT_THROW(Loader(std::make_shared<OverlayDataset>(), Transform(std::vector<Op>{PixelOp(TrivialAugmentWide{})}),
                        {.batch_size = 4}),
                 InvalidArgument);
    EXPECT_THROW(Loader(std::make_shared<OverlayDataset>(),
                        Transform(std::vector<Op>{RandomCrop{.height = 8, .width = 8, .mode = PaddingMode::reflect}}),
                        {.batch_size = 4}),
                 InvalidArgument);
    EXPECT_THROW(Loader(std::make_shared<OverlayDataset>(), moving_ops(),
                        {.batch_size = 4, .fields = {{.name = "typo", .pad = 3}}}),
                 InvalidArgument);
}

}  // namespace
}  // namespace stoker
