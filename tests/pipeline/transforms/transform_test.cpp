// A transform of one sample, against each op called directly.
#include "stoker/pipeline/transforms/transform.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "stoker/base/error.h"
#include "stoker/codecs/encode.h"

namespace stoker {
namespace {

Image make_image(int height, int width, int channels) {
    Image image(height, width, channels);
    std::uint32_t state = 1;
    const ImageView view = image.view();
    for (int y = 0; y < height; ++y) {
        for (std::size_t x = 0; x < view.row_bytes(); ++x) {
            state = state * 1664525u + 1013904223u;
            view.row(y)[x] = static_cast<std::uint8_t>(state >> 24);
        }
    }
    return image;
}

// A packed copy, for comparisons.
std::vector<std::uint8_t> pixels(ConstImageView view) {
    std::vector<std::uint8_t> bytes;
    for (int y = 0; y < view.height; ++y) {
        bytes.insert(bytes.end(), view.row(y), view.row(y) + view.row_bytes());
    }
    return bytes;
}

Sample raw_sample(const Image& image) {
    Sample sample;
    const ConstImageView view = image.view();
    sample.bytes = {reinterpret_cast<const std::byte*>(view.data), image.bytes()};
    sample.height = view.height;
    sample.width = view.width;
    sample.channels = view.channels;
    return sample;
}

class TransformTest : public ::testing::Test {
  protected:
    ConstImageView prepare(const Transform& transform, const Sample& sample) {
        StageClock clock(times_);
        return transform.prepare(sample, scratch_, clock);
    }
    ConstImageView run(const Transform& transform, const Sample& sample, const RngKey& key) {
        return transform.augment(prepare(transform, sample), key, scratch_);
    }

    // A prepared image to floats.
    std::vector<float> floats(const Transform& transform, ConstImageView image, Layout layout) {
        std::vector<float> out(image.row_bytes() * static_cast<std::size_t>(image.height));
        transform.run(image, {}, scratch_,
                      {.pixels = {.data = reinterpret_cast<std::byte*>(out.data()), .layout = layout},
                       .channels = image.channels,
                       .height = image.height,
                       .width = image.width});
        return out;
    }

    StageTimes times_;
    TransformScratch scratch_;
    const Image image_ = make_image(37, 29, 3);
    const Sample sample_ = raw_sample(image_);
};

TEST_F(TransformTest, WithoutOpsPixelsAreDividedBy255) {
    const Transform transform;
    const ConstImageView out = run(transform, sample_, {});
    EXPECT_EQ(pixels(out), pixels(image_.view()));
    const auto values = floats(transform, out, Layout::hwc);
    const auto bytes = pixels(image_.view());
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        ASSERT_NEAR(values[i], static_cast<float>(bytes[i]) / 255.0f, 1e-6);
    }
}

TEST_F(TransformTest, ResizeIsTheOpsResize) {
    for (const auto& [op, size] : {std::pair(Resize{.shorter = 20}, ImageSize{25, 20}),
                                   std::pair(Resize{.size = ImageSize{9, 50}}, ImageSize{9, 50}),
                                   std::pair(Resize{.shorter = 29}, ImageSize{37, 29})}) {
        Image want(size.height, size.width, 3);
        ResizeScratch scratch;
        resize(image_.view(), want.view(), scratch);
        EXPECT_EQ(pixels(run(Transform(std::vector<Op>{op}), sample_, {})), pixels(want.view()));
    }
}

TEST_F(TransformTest, CenterCropIsAView) {
    const ConstImageView out = run(Transform(std::vector<Op>{CenterCrop{10, 12}}), sample_, {});
    EXPECT_EQ(out.data, image_.view().crop(center_crop_box(37, 29, 10, 12)).data) << "nothing is copied";
    EXPECT_EQ(pixels(out), pixels(image_.view().crop(center_crop_box(37, 29, 10, 12))));
}

TEST_F(TransformTest, ACropBeyondTheImageIsPadded) {
    const ConstImageView out = run(Transform(std::vector<Op>{CenterCrop{40, 12}}), sample_, {});
    Image want(40, 12, 3);
    padded_crop(image_.view(), center_crop_box(37, 29, 40, 12), PaddingMode::constant, {}, want.view());
    EXPECT_EQ(pixels(out), pixels(want.view()));
    EXPECT_EQ(out.row(0)[0], 0);
}

TEST_F(TransformTest, RandomOpsDrawFromTheirOwnStreams) {
    const RandomResizedCrop crop{.height = 11, .width = 13};
    const Transform transform(std::vector<Op>{Resize{.shorter = 25}, crop, HorizontalFlip{}});
    Image small(31, 25, 3);
    ResizeScratch scratch;
    resize(image_.view(), small.view(), scratch);
    int flips = 0;
    for (std::uint64_t sample = 0; sample < 20; ++sample) {
        RngKey key{.seed = 3, .epoch = 2, .sample = sample, .op = 1};
        Rng crop_rng(key);
        const Box box = draw_random_resized_crop(crop, 31, 25, crop_rng);
        Image want(11, 13, 3);
        resize(small.view().crop(box), want.view(), scratch);
        key.op = 2;
        Rng flip_rng(key);
        if (draw_horizontal_flip({}, flip_rng)) {
            horizontal_flip(want.view());
            ++flips;
        }
        key.op = 99;  // ignored
        EXPECT_EQ(pixels(run(transform, sample_, key)), pixels(want.view())) << "sample " << sample;
    }
    EXPECT_GT(flips, 3);
    EXPECT_LT(flips, 17);
}

// prepare holds what is the same in every epoch, augment the rest, and neither writes to its input.
TEST_F(TransformTest, AugmentLeavesThePreparedImageAlone) {
    const Transform transform(std::vector<Op>{Resize{.shorter = 25}, CenterCrop{20, 20}, HorizontalFlip{1.0f}});
    const ConstImageView prepared = prepare(transform, sample_);
    EXPECT_EQ(prepared.height, 20);
    Image copy(20, 20, 3);
    copy_pixels(prepared, copy.view());
    const auto first = pixels(transform.augment(copy.view(), {}, scratch_));
    const auto second = pixels(transform.augment(copy.view(), {}, scratch_));
    EXPECT_EQ(first, second);
    horizontal_flip(copy.view());
    EXPECT_EQ(first, pixels(copy.view()));
    const auto before = pixels(image_.view());
    static_cast<void>(run(Transform(std::vector<Op>{HorizontalFlip{1.0f}}), sample_, {}));
    EXPECT_EQ(pixels(image_.view()), before) << "the data set's memory is never written to";
}

TEST_F(TransformTest, ManyOpsInARowReadAndWriteDifferentMemory) {
    std::vector<Op> ops;
    for (int side = 30; side > 10; --side) {
        ops.emplace_back(Resize{.size = ImageSize{side, side}});
        ops.emplace_back(HorizontalFlip{1.0f});
        ops.emplace_back(CenterCrop{side - 1, side + 2});
    }
    Image want(37, 29, 3);
    copy_pixels(image_.view(), want.view());
    ResizeScratch scratch;
    for (int side = 30; side > 10; --side) {
        Image resized(side, side, 3);
        resize(want.view(), resized.view(), scratch);
        horizontal_flip(resized.view());
        want = Image(side - 1, side + 2, 3);
        padded_crop(resized.view(), center_crop_box(side, side, side - 1, side + 2), PaddingMode::constant, {},
                    want.view());
    }
    EXPECT_EQ(pixels(run(Transform(ops), sample_, {})), pixels(want.view()));
}

TEST_F(TransformTest, LayoutsAreTransposesOfEachOther) {
    for (const int channels : {1, 3, 4}) {
        const Image image = make_image(7, 5, channels);
        const Transform transform(std::vector<Op>{kImageNetNormalize});
        const auto chw = floats(transform, image.view(), Layout::chw);
        const auto hwc = floats(transform, image.view(), Layout::hwc);
        const auto depth = static_cast<std::size_t>(channels);
        for (std::size_t c = 0; c < depth; ++c) {
            for (std::size_t pixel = 0; pixel < 35; ++pixel) {
                ASSERT_EQ(chw[c * 35 + pixel], hwc[pixel * depth + c]);
            }
        }
    }
}

TEST_F(TransformTest, EncodedImagesAreDecodedFirst) {
    const auto png = encode_png(image_.view());
    Sample sample;
    sample.bytes = std::as_bytes(std::span(png));
    sample.encoded = true;
    EXPECT_EQ(pixels(run(Transform(std::vector<Op>{CenterCrop{10, 10}}), sample, {})),
              pixels(image_.view().crop(center_crop_box(37, 29, 10, 10))));
    EXPECT_GT(times_[Stage::pixels].count(), 0);
    sample.bytes = sample.bytes.first(40);
    EXPECT_THROW(run(Transform(), sample, {}), DataError);
}

// Pillow's formula for convert("L"), and its place: before the resize, as there.
TEST_F(TransformTest, EncodedImagesBecomeGrayWhereTheModelTakesOneChannel) {
    const auto png = encode_png(image_.view());
    Sample sample;
    sample.bytes = std::as_bytes(std::span(png));
    sample.encoded = true;
    Image gray(37, 29, 1);
    for (int y = 0; y < 37; ++y) {
        for (int x = 0; x < 29; ++x) {
            const std::uint8_t* rgb = &image_.view().row(y)[std::ptrdiff_t{3} * x];
            gray.view().row(y)[x] =
                static_cast<std::uint8_t>((rgb[0] * 19595 + rgb[1] * 38470 + rgb[2] * 7471 + 0x8000) >> 16);
        }
    }
    for (const auto& ops : {std::vector<Op>{}, {Resize{.shorter = 13}, CenterCrop{10, 12}}}) {
        const auto want = pixels(run(Transform(ops), raw_sample(gray), {}));
        const ConstImageView got = run(Transform(ops, {.channels = 1}), sample, {});
        EXPECT_EQ(got.channels, 1);
        EXPECT_EQ(pixels(got), want);
        EXPECT_EQ(run(Transform(ops, {.channels = 3}), sample, {}).channels, 3);
    }
}

TEST_F(TransformTest, NormalizeForOtherChannelsNamesItsPlace) {
    const std::vector<OpSpec> specs = {{.name = "normalize", .options = {{"preset", "imagenet"}}, .where = "x.toml:7"}};
    const Transform transform(specs);
    EXPECT_NO_THROW(transform.require_channels(3));
    try {
        transform.require_channels(1);
        ADD_FAILURE();
    } catch (const InvalidArgument& error) {
        EXPECT_STREQ(error.what(),
                     "[x.toml:7] expected normalize with a mean and a std for the 1 channel of the images, or with one "
                     "for all, got values for 3");
    }
    EXPECT_NO_THROW(Transform().require_channels(1));
}

TEST_F(TransformTest, AColourIsForTheChannelsOfTheImages) {
    const auto spec = [](const std::vector<double>& fill) {
        return OpSpec{.name = "random_crop", .options = {{"size", 8.0}, {"fill", fill}}, .where = "x.toml:7"};
    };
    EXPECT_NO_THROW(Transform(std::vector{spec({1, 2, 3})}).require_channels(3));
    EXPECT_NO_THROW(Transform(std::vector{spec({1})}).require_channels(3));
    EXPECT_NO_THROW(Transform(std::vector{spec({1, 2})}).require_channels(2));
    EXPECT_THROW(Transform(std::vector{spec({1, 2})}).require_channels(3), InvalidArgument);
    EXPECT_THROW(Transform(std::vector{spec({1, 2, 3, 4})}).require_channels(3), InvalidArgument);
    EXPECT_THROW(Transform(std::vector{spec({1, 2, 3})}).require_channels(1), InvalidArgument);
}

TEST_F(TransformTest, NormalizeMustBeLast) {
    for (const auto& ops :
         {std::vector<Op>{kMnistNormalize, HorizontalFlip{}}, std::vector<Op>{kMnistNormalize, kMnistNormalize}}) {
        try {
            const Transform transform(ops);
            ADD_FAILURE() << "accepted";
        } catch (const InvalidArgument& error) {
            EXPECT_THAT(error.what(), ::testing::HasSubstr("expected normalize to be the last op, got op 1 of 2; "
                                                           "move it to the end of the list"));
        }
    }
    EXPECT_EQ(Transform(std::vector<Op>{HorizontalFlip{}, kMnistNormalize}).ops().size(), 1u);
}

// A few rows of noise must not become gigabytes: shorter = 32768 of 1 x 30000 asks for 32768 x 983 million.
TEST_F(TransformTest, AResizeToTooManyPixelsIsRefused) {
    const Image thin = make_image(1, 30'000, 3);
    EXPECT_THROW(run(Transform(std::vector<Op>{Resize{.shorter = 256}}), raw_sample(thin), {}), DataError);
}

TEST_F(TransformTest, SpecsBecomeOps) {
    const Transform transform(std::vector<OpSpec>{{.name = "resize", .options = {{"size", 20.0}}, .where = "here"},
                                                  {.name = "normalize", .options = {}, .where = "there"}});
    EXPECT_EQ(run(transform, sample_, {}).width, 20);
    EXPECT_THROW(Transform(std::vector<OpSpec>{{.name = "nothing", .options = {}, .where = "here"}}), InvalidArgument);
}

}  // namespace
}  // namespace stoker
