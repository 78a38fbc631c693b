// Pixel ops in a transform: equal to the op functions one after the other, without work for ops that change nothing,
// and without writing to the input; and their options in a recipe.
#include "stoker/pipeline/transforms/pixel_ops.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pipeline/transforms/step_by_step.h"
#include "stoker/base/error.h"
#include "stoker/codecs/encode.h"
#include "stoker/pipeline/transforms/op_table.h"
#include "stoker/pipeline/transforms/transform.h"

namespace stoker::pixel_ops_test {
namespace {

using ::testing::HasSubstr;
using Options = std::map<std::string, OptionValue>;
using Numbers = std::vector<double>;

OpSpec spec(const std::string& name, const Options& options = {}) {
    return {.name = name, .options = options, .where = "r.toml:3: data.train_ops[0]"};
}

template <typename T>
T make(const std::string& name, const Options& options) {
    return std::get<T>(std::get<PixelOp>(make_ops({spec(name, options)}).front()));
}

void expect_refused(const std::string& name, const Options& options, const std::string& message) {
    try {
        make_ops({spec(name, options)});
        ADD_FAILURE() << "accepted, instead of: " << message;
    } catch (const InvalidArgument& error) {
        EXPECT_THAT(error.what(), HasSubstr(message));
        EXPECT_THAT(error.what(), HasSubstr("[r.toml:3: data.train_ops[0]"));
    }
}

Image picture(int height, int width, int channels) {
    Image image(height, width, channels);
    Rng rng({.seed = 77});
    for (std::size_t i = 0; i < image.bytes(); ++i) {
        image.view().data[i] = static_cast<std::uint8_t>(rng.next());
    }
    return image;
}

bool same(ConstImageView one, ConstImageView other) {
    bool equal = one.height == other.height && one.width == other.width && one.channels == other.channels;
    for (int y = 0; equal && y < one.height; ++y) {
        equal = std::memcmp(one.row(y), other.row(y), one.row_bytes()) == 0;
    }
    return equal;
}

const std::vector<OpSpec> kEverything = {
    spec("random_resized_crop", {{"size", Numbers{40, 44}}}),
    spec("color_jitter", {{"brightness", 0.4}, {"contrast", 0.4}, {"saturation", 0.4}, {"hue", 0.1}}),
    spec("horizontal_flip"),
    spec("random_rotation", {{"degrees", 20.0}, {"interpolation", "bilinear"}, {"fill", Numbers{1, 2, 3}}}),
    spec("random_crop", {{"size", 36.0}, {"padding", 4.0}, {"padding_mode", "reflect"}}),
    spec("random_grayscale", {{"p", 0.3}}),
    spec("vertical_flip"),
    spec("random_affine", {{"degrees", 10.0}, {"translate", Numbers{0.1, 0.1}}, {"scale", Numbers{0.8, 1.2}}}),
    spec("random_perspective", {{"fill", 9.0}}),
    spec("elastic_transform", {{"sigma", Numbers{2, 3}}, {"p", 0.7}}),
    spec("gaussian_blur", {{"kernel_size", Numbers{5, 3}}}),
    spec("random_solarize", {{"threshold", 128.0}}),
    spec("random_adjust_sharpness", {{"sharpness_factor", 2.0}}),
    spec("trivial_augment_wide"),
    spec("rand_augment", {{"num_ops", 3.0}}),
    spec("auto_augment"),
    spec("timm_rand_augment", {{"magnitude", 9.0}, {"magnitude_std", 0.5}, {"increasing", true}}),
    spec("random_choice", {{"ops", std::vector{spec("horizontal_flip"), spec("random_rotation", {{"degrees", 9.0}})}}}),
    spec("random_erasing", {{"value", "random"}}),
    spec("center_crop", {{"size", 32.0}}),
};

TEST(PixelOps, AreTheOpsOneAfterTheOther) {
    const std::vector<Op> ops = make_ops(kEverything);
    const Transform transform(ops);
    TransformScratch scratch;
    const Image image = picture(70, 90, 3);
    const Image before = testing::copy_of(image.view());
    for (std::uint64_t sample = 0; sample < 200; ++sample) {
        const RngKey key{.seed = 5, .epoch = 1, .sample = sample};
        const Image wanted = testing::step_by_step(image.view(), ops, key);
        ASSERT_TRUE(same(transform.augment(image.view(), key, scratch), wanted.view())) << sample;
    }
    EXPECT_TRUE(same(image.view(), before.view())) << "the input must not change";
}

TEST(PixelOps, AreTheSameForEncodedImagesWithAndWithoutACache) {
    std::vector<OpSpec> specs = kEverything;
    specs.insert(specs.begin(), spec("resize", {{"size", 60.0}}));
    const std::vector<Op> ops = make_ops(specs);
    const Transform transform(ops);
    const Image image = picture(70, 90, 3);
    const std::vector<std::byte> png = encode_png(image.view());
    Sample sample;
    sample.bytes = png;
    sample.encoded = true;
    TransformScratch scratch;
    StageTimes times;
    StageClock clock(times);
    std::vector<std::byte> out(std::size_t{3} * 32 * 32 * sizeof(float));
    const ImageSlot slot{.pixels = {.data = out.data(), .dtype = DType::float32, .layout = Layout::chw},
                         .channels = 3,
                         .height = 32,
                         .width = 32};
    for (std::uint64_t number = 0; number < 50; ++number) {
        const RngKey key{.seed = 6, .sample = number};
        const Image wanted = testing::step_by_step(image.view(), ops, key);
        const std::vector<std::byte> bytes = testing::stored(wanted.view(), {}, DType::float32, Layout::chw);
        transform.run(sample, key, scratch, slot, clock);
        ASSERT_TRUE(out == bytes) << number;
        const Image prepared = testing::copy_of(transform.prepare(sample, scratch, clock));
        const Image before = testing::copy_of(prepared.view());
        transform.run(prepared.view(), key, scratch, slot);
        ASSERT_TRUE(out == bytes) << number << ", cached";
        ASSERT_TRUE(same(prepared.view(), before.view())) << "the cache must not change";
    }
}

TEST(PixelOps, WhatDrawsNothingCostsNothing) {
    const Transform transform({spec("random_resized_crop", {{"size", 20.0}, {"scale", Numbers{1, 1}}}),
                               spec("random_grayscale", {{"p", 0.0}}), spec("color_jitter"),
                               spec("random_rotation", {{"degrees", 0.0}}), spec("random_erasing", {{"p", 0.0}}),
                               spec("vertical_flip", {{"p", 0.0}})});
    TransformScratch scratch;
    const Image image = picture(20, 20, 3);
    const ConstImageView out = transform.augment(image.view(), {}, scratch);
    EXPECT_EQ(out.data, image.view().data);
}

TEST(PixelOps, AskBeforeTheyRun) {
    const ImageSize size{20, 30};
    Image scratch;
    for (const OpSpec& one : kEverything) {
        const Op op = make_ops({one}).front();
        const auto* pixel_op = std::get_if<PixelOp>(&op);
        for (std::uint64_t sample = 0; pixel_op != nullptr && sample < 200; ++sample) {
            const Rng rng({.sample = sample});
            Image image = picture(20, 30, 3);
            const Image before = testing::copy_of(image.view());
            run_pixel_op(*pixel_op, image.view(), rng, scratch);
            if (!changes_pixels(*pixel_op, size, rng)) {
                ASSERT_TRUE(same(image.view(), before.view())) << one.name;
            }
        }
    }
}

TEST(PixelOps, MasksFollowTheImage) {
    Image scratch;
    int changed = 0;
    for (const OpSpec& one : {spec("vertical_flip"), spec("random_rotation", {{"degrees", 90.0}}),
                              spec("random_affine", {{"degrees", 45.0}, {"translate", Numbers{0.2, 0.2}}})}) {
        const auto op = std::get<PixelOp>(make_ops({one}).front());
        EXPECT_TRUE(takes_masks_and_boxes(op));
        for (std::uint64_t sample = 0; sample < 20; ++sample) {
            const Rng rng({.sample = sample});
            Image image = picture(20, 30, 1);  // nearest and black outside are the defaults of images too
            Image mask = testing::copy_of(image.view());
            const Image before = testing::copy_of(image.view());
            run_pixel_op(op, image.view(), rng, scratch);
            run_on_mask(op, mask.view(), rng, scratch);
            ASSERT_TRUE(same(image.view(), mask.view())) << one.name << " " << sample;
            changed += same(mask.view(), before.view()) ? 0 : 1;
        }
    }
    EXPECT_GT(changed, 40);
}

TEST(PixelOps, BoxesFollowTheImage) {
    const ImageSize size{20, 30};
    const std::vector<float> before = {3, 4, 9, 11.5f};
    const auto moved = [&](const OpSpec& one) {
        std::vector<float> boxes = before;
        run_on_boxes(std::get<PixelOp>(make_ops({one}).front()), boxes, size, Rng({.sample = 4}));
        return boxes;
    };
    EXPECT_EQ(moved(spec("vertical_flip", {{"p", 1.0}})), (std::vector<float>{3, 8.5f, 9, 16}));
    EXPECT_EQ(moved(spec("vertical_flip", {{"p", 0.0}})), before);
    const std::vector<float> turned = moved(spec("random_rotation", {{"degrees", Numbers{180, 180}}}));
    const std::vector<float> grown =
        moved(spec("random_affine", {{"degrees", 0.0}, {"scale", Numbers{1.5, 1.5}}, {"interpolation", "bilinear"}}));
    for (std::size_t i = 0; i < before.size(); ++i) {
        const auto side = static_cast<float>(i % 2 == 0 ? size.width : size.height);
        EXPECT_NEAR(turned[i], side - before[(i + 2) % 4], 1e-4);
        EXPECT_NEAR(grown[i], std::max(0.0f, 1.5f * (before[i] - side / 2) + side / 2), 1e-4);
    }
}

TEST(PixelOps, ColoursLeaveMasksAndBoxes) {
    Image scratch;
    const Image before = picture(20, 30, 1);
    Image mask = testing::copy_of(before.view());
    std::vector<float> boxes = {3, 4, 9, 11.5f};
    for (const OpSpec& one :
         {spec("random_invert", {{"p", 1.0}}), spec("gaussian_blur", {{"kernel_size", 3.0}}), spec("grayscale"),
          spec("random_erasing", {{"p", 1.0}}), spec("color_jitter", {{"brightness", Numbers{0, 0}}})}) {
        const auto op = std::get<PixelOp>(make_ops({one}).front());
        EXPECT_TRUE(takes_masks_and_boxes(op));
        run_on_mask(op, mask.view(), Rng({}), scratch);
        run_on_boxes(op, boxes, {20, 30}, Rng({}));
    }
    EXPECT_TRUE(same(mask.view(), before.view()));
    EXPECT_EQ(boxes, (std::vector<float>{3, 4, 9, 11.5f}));
    for (const char* name : {"trivial_augment_wide", "rand_augment", "auto_augment"}) {
        EXPECT_FALSE(takes_masks_and_boxes(std::get<PixelOp>(make_ops({spec(name)}).front()))) << name;
    }
}

TEST(PixelOps, RandomCropIsFoldedWhereItLiesWithin) {
    const Transform transform({spec("random_crop", {{"size", 10.0}})});
    TransformScratch scratch;
    const Image image = picture(30, 30, 3);
    const ConstImageView out = transform.augment(image.view(), {.sample = 3}, scratch);
    EXPECT_GE(out.data, image.view().data);
    EXPECT_LT(out.data, image.view().data + image.bytes());
    const Image small = picture(9, 30, 3);
    EXPECT_THROW(transform.augment(small.view(), {}, scratch), DataError);
}

std::vector<OpSpec> invert_and_gray() {
    return {spec("random_invert", {{"p", 1.0}}), spec("grayscale")};
}

Image copy_of(const Image& image) {
    const ConstImageView from = image.view();
    Image copy(from.height, from.width, from.channels);
    std::memcpy(copy.view().data, from.data, image.bytes());
    return copy;
}

Image ran(const OpSpec& what, const Image& on, std::uint64_t sample) {
    Image image = copy_of(on);
    Image scratch;
    run_pixel_op(std::get<PixelOp>(make_ops({what}).front()), image.view(), Rng({.seed = 1, .sample = sample}),
                 scratch);
    return image;
}

// On an image that each op changes in another way.
TEST(OpGroups, RunAllOrOneOfTheirOps) {
    const Image plain = picture(5, 6, 3);
    const Image inverted = ran(invert_and_gray()[0], plain, 0);
    const Image gray = ran(invert_and_gray()[1], plain, 0);
    const Image both = ran(invert_and_gray()[1], inverted, 0);
    const Options ops = {{"ops", invert_and_gray()}};
    const auto share = [&](const OpSpec& group, const Image& expected) {
        int equal = 0;
        for (std::uint64_t sample = 0; sample < 2000; ++sample) {
            equal += same(ran(group, plain, sample).view(), expected.view()) ? 1 : 0;
        }
        return equal / 2000.0;
    };
    const auto with = [&](OptionValue p) {
        Options all = ops;
        all["p"] = std::move(p);
        return all;
    };
    EXPECT_EQ(share(spec("random_apply", with(1.0)), both), 1);
    EXPECT_EQ(share(spec("random_apply", with(0.0)), plain), 1);
    EXPECT_NEAR(share(spec("random_apply", with(0.25)), both), 0.25, 0.04);
    EXPECT_NEAR(share(spec("random_choice", ops), gray), 0.5, 0.04);
    const OpSpec weighted = spec("random_choice", with(Numbers{3, 1}));
    EXPECT_NEAR(share(weighted, inverted), 0.75, 0.04);
    EXPECT_NEAR(share(weighted, gray), 0.25, 0.04);
    EXPECT_EQ(share(spec("random_choice", with(Numbers{0, 2})), gray), 1);
    EXPECT_EQ(share(spec("random_choice", with(Numbers{2, 0})), inverted), 1);
    const auto never = std::get<PixelOp>(make_ops({spec("random_apply", with(0.0))}).front());
    EXPECT_FALSE(changes_pixels(never, {5, 6}, Rng({.seed = 1})));
}

TEST(OpGroups, MoveMasksAndBoxesWithTheImage) {
    const Options flips = {
        {"ops", std::vector{spec("horizontal_flip", {{"p", 1.0}}), spec("vertical_flip", {{"p", 1.0}})}}};
    const auto op = std::get<PixelOp>(make_ops({spec("random_choice", flips)}).front());
    EXPECT_TRUE(takes_masks_and_boxes(op));
    const Image plain = picture(5, 6, 1);
    int mirrored = 0;
    for (std::uint64_t sample = 0; sample < 100; ++sample) {
        const Rng rng({.seed = 2, .sample = sample});
        Image image = copy_of(plain);
        Image mask = copy_of(plain);
        Image scratch;
        run_pixel_op(op, image.view(), rng, scratch);
        run_on_mask(op, mask.view(), rng, scratch);
        EXPECT_TRUE(same(image.view(), mask.view()));
        std::array<float, 4> box = {1, 1, 2, 3};
        run_on_boxes(op, box, {5, 6}, rng);
        const bool left_right = box == std::array<float, 4>{4, 1, 5, 3};
        EXPECT_TRUE(left_right || (box == std::array<float, 4>{1, 2, 2, 4}));
        EXPECT_EQ(image.view().row(0)[0], left_right ? plain.view().row(0)[5] : plain.view().row(4)[0]);
        mirrored += left_right ? 1 : 0;
    }
    EXPECT_GT(mirrored, 30);
    EXPECT_LT(mirrored, 70);
    const Options elastic = {{"ops", std::vector{spec("elastic_transform")}}};
    EXPECT_FALSE(takes_masks_and_boxes(std::get<PixelOp>(make_ops({spec("random_apply", elastic)}).front())));
}

TEST(PixelOpTable, Groups) {
    expect_refused("random_apply", {}, ".ops] expected a list of ops");
    expect_refused("random_choice", {{"ops", Numbers{}}}, ".ops] expected a list of ops");
    expect_refused("random_apply", {{"ops", std::vector{spec("center_crop", {{"size", 4.0}})}}}, "got center_crop");
    expect_refused("random_apply", {{"ops", std::vector{spec("normalize")}}}, "got normalize");
    expect_refused("random_apply", {{"ops", std::vector{spec("grayscal")}}}, "\"grayscal\"");
    expect_refused("random_choice", {{"ops", invert_and_gray()}, {"p", Numbers{1}}},
                   ".p] expected a list of 2 numbers");
    expect_refused("random_choice", {{"ops", invert_and_gray()}, {"p", Numbers{0, 0}}},
                   ".p] expected a weight for each");
    expect_refused("random_choice", {{"ops", invert_and_gray()}, {"p", Numbers{2, -1}}},
                   ".p] expected a weight for each");
}

TEST(PixelOpTable, ColorJitter) {
    const auto plain = make<ColorJitter>("color_jitter", {});
    EXPECT_EQ(plain.brightness, (FactorRange{1, 1}));
    EXPECT_EQ(plain.hue, (FactorRange{0, 0}));
    const auto full = make<ColorJitter>(
        "color_jitter", {{"brightness", 0.5}, {"contrast", 3.0}, {"saturation", Numbers{0.5, 0.75}}, {"hue", 0.25}});
    EXPECT_EQ(full.brightness, (FactorRange{0.5f, 1.5f}));
    EXPECT_EQ(full.contrast, (FactorRange{0, 4}));
    EXPECT_EQ(full.saturation, (FactorRange{0.5f, 0.75f}));
    EXPECT_EQ(full.hue, (FactorRange{-0.25f, 0.25f}));
    expect_refused("color_jitter", {{"hue", 0.6}}, ".hue] expected a range within -0.5 and 0.5");
    expect_refused("color_jitter", {{"brightness", -0.5}}, ".brightness] expected a number of at least 0");
    expect_refused("color_jitter", {{"contrast", Numbers{1, 0.5}}}, ".contrast] expected a range");
    expect_refused("color_jitter", {{"contrats", 1.0}}, "brightness, contrast, saturation, hue, p, got contrats");
}

TEST(PixelOpTable, RandomErasing) {
    const auto plain = make<RandomErasing>("random_erasing", {});
    EXPECT_EQ(plain.probability, 0.5f);
    EXPECT_EQ(plain.scale_high, 0.33f);
    EXPECT_EQ(plain.ratio_low, 0.3f);
    EXPECT_EQ(plain.value, Color{});
    EXPECT_FALSE(make<RandomErasing>("random_erasing", {{"value", "random"}}).value);
    EXPECT_EQ(make<RandomErasing>("random_erasing", {{"value", 7.0}}).value, (Color{7, 7, 7, 7}));
    EXPECT_EQ(make<RandomErasing>("random_erasing", {{"value", Numbers{1, 2, 3}}}).value, (Color{1, 2, 3, 3}));
    expect_refused("random_erasing", {{"value", "noise"}}, ".value] expected one of random, got \"noise\"");
    expect_refused("random_erasing", {{"value", 256.0}}, ".value] expected whole values from 0 to 255");
    expect_refused("random_erasing", {{"scale", Numbers{0.5, 1.5}}}, ".scale] expected [low, high]");
    expect_refused("random_erasing", {{"ratio", Numbers{0, 1}}}, ".ratio] expected [low, high]");
}

TEST(PixelOpTable, RandomCrop) {
    const auto crop = [](const Options& options) {
        return std::get<RandomCrop>(make_ops({spec("random_crop", options)}).front());
    };
    const auto sides = [&](const OptionValue& padding) {
        const Padding made = crop({{"size", 8.0}, {"padding", padding}}).padding;
        return std::array{made.left, made.top, made.right, made.bottom};
    };
    EXPECT_EQ(sides(4.0), (std::array{4, 4, 4, 4}));
    EXPECT_EQ(sides(Numbers{1, 2}), (std::array{1, 2, 1, 2}));
    EXPECT_EQ(sides(Numbers{1, 2, 3, 4}), (std::array{1, 2, 3, 4}));
    EXPECT_TRUE(crop({{"size", 8.0}, {"pad_if_needed", true}}).pad_if_needed);
    EXPECT_EQ(crop({{"size", 8.0}}).mode, PaddingMode::constant);
    EXPECT_EQ(crop({{"size", 8.0}, {"padding_mode", "symmetric"}}).mode, PaddingMode::symmetric);
    expect_refused("random_crop", {}, "the option size");
    expect_refused("random_crop", {{"size", 8.0}, {"padding", Numbers{1, 2, 3}}}, "[left, top, right, bottom]");
    expect_refused("random_crop", {{"size", 8.0}, {"padding", -1.0}}, "whole pixels from 0");
    expect_refused("random_crop", {{"size", 8.0}, {"padding_mode", "wrap"}}, "constant, edge, reflect, symmetric");
    expect_refused("random_crop", {{"size", 8.0}, {"pad_if_needed", 1.0}}, "expected true or false");
}

TEST(PixelOpTable, TheOthers) {
    EXPECT_EQ(make<RandomGrayscale>("random_grayscale", {}).probability, 0.1f);
    EXPECT_EQ(make<VerticalFlip>("vertical_flip", {}).probability, 0.5f);
    const auto turn = make<RandomRotation>("random_rotation", {{"degrees", 30.0}, {"interpolation", "bilinear"}});
    EXPECT_EQ(turn.low, -30);
    EXPECT_EQ(turn.high, 30);
    EXPECT_EQ(turn.interpolation, Interpolation::bilinear);
    EXPECT_EQ(make<RandomRotation>("random_rotation", {{"degrees", Numbers{10, 20}}}).low, 10);
    expect_refused("random_rotation", {}, ".degrees] expected a number of at least 0, or [low, high], got none");
    expect_refused("random_rotation", {{"degrees", 1.0}, {"interpolation", "cubic"}}, "one of nearest, bilinear");
    const auto trivial = make<TrivialAugmentWide>("trivial_augment_wide", {});
    EXPECT_EQ(trivial.bins, 31);
    EXPECT_FALSE(trivial.fill);
    EXPECT_TRUE(make<TrivialAugmentWide>("trivial_augment_wide", {{"fill", 0.0}}).fill);
    expect_refused("trivial_augment_wide", {{"num_magnitude_bins", 1.0}}, "a number from 2 to 1000");
    expect_refused("trivial_augment_wide", {{"num_magnitude_bins", 2.5}}, "a whole number");
}

TEST(PixelOpTable, RandomAffine) {
    const auto plain = make<RandomAffine>("random_affine", {{"degrees", 30.0}});
    EXPECT_EQ(plain.degrees, (FactorRange{-30, 30}));
    EXPECT_EQ(plain.translate, (std::array<float, 2>{0, 0}));
    EXPECT_EQ(plain.scale, (FactorRange{1, 1}));
    EXPECT_EQ(plain.shear_x, (FactorRange{0, 0}));
    EXPECT_EQ(plain.interpolation, Interpolation::nearest);
    EXPECT_EQ(plain.fill, Color{});
    const auto full = make<RandomAffine>("random_affine", {{"degrees", Numbers{-5, 10}},
                                                           {"translate", Numbers{0.25, 0.5}},
                                                           {"scale", Numbers{0.5, 2}},
                                                           {"shear", Numbers{-1, 2, -3, 4}},
                                                           {"interpolation", "bilinear"},
                                                           {"fill", 7.0}});
    EXPECT_EQ(full.degrees, (FactorRange{-5, 10}));
    EXPECT_EQ(full.translate, (std::array<float, 2>{0.25f, 0.5f}));
    EXPECT_EQ(full.scale, (FactorRange{0.5f, 2}));
    EXPECT_EQ(full.shear_x, (FactorRange{-1, 2}));
    EXPECT_EQ(full.shear_y, (FactorRange{-3, 4}));
    EXPECT_EQ(full.interpolation, Interpolation::bilinear);
    EXPECT_EQ(full.fill, (Color{7, 7, 7, 7}));
    const auto sheared = [](const OptionValue& shear) {
        return make<RandomAffine>("random_affine", {{"degrees", 0.0}, {"shear", shear}}).shear_x;
    };
    EXPECT_EQ(sheared(8.0), (FactorRange{-8, 8}));
    EXPECT_EQ(sheared(Numbers{1, 8}), (FactorRange{1, 8}));
    expect_refused("random_affine", {}, ".degrees] expected a number of at least 0, or [low, high], got none");
    expect_refused("random_affine", {{"degrees", 1.0}, {"translate", Numbers{0, 2}}}, ".translate] expected [x, y]");
    expect_refused("random_affine", {{"degrees", 1.0}, {"scale", Numbers{0, 1}}}, ".scale] expected [low, high]");
    expect_refused("random_affine", {{"degrees", 1.0}, {"shear", Numbers{1, 2, 3}}}, ".shear] expected a number");
    expect_refused("random_affine", {{"degrees", 1.0}, {"shear", Numbers{1, 2, 4, 3}}}, ".shear] expected [low, high]");
}

TEST(PixelOpTable, Blur) {
    const auto plain = make<GaussianBlur>("gaussian_blur", {{"kernel_size", 23.0}});
    EXPECT_EQ(plain.width, 23);
    EXPECT_EQ(plain.height, 23);
    EXPECT_EQ(plain.sigma_low, 0.1f);
    EXPECT_EQ(plain.sigma_high, 2);
    const auto full = make<GaussianBlur>("gaussian_blur", {{"kernel_size", Numbers{5, 9}}, {"sigma", 1.5}});
    EXPECT_EQ(full.width, 5);
    EXPECT_EQ(full.height, 9);
    EXPECT_EQ(full.sigma_low, 1.5f);
    EXPECT_EQ(full.sigma_high, 1.5f);
    expect_refused("gaussian_blur", {}, ".kernel_size] expected an odd number from 1 to 255, or [x, y], got none");
    expect_refused("gaussian_blur", {{"kernel_size", 4.0}}, ".kernel_size] expected an odd number");
    expect_refused("gaussian_blur", {{"kernel_size", 257.0}}, ".kernel_size] expected an odd number");
    expect_refused("gaussian_blur", {{"kernel_size", 3.0}, {"sigma", 0.0}}, ".sigma] expected");
}

TEST(PixelOpTable, Photometric) {
    const auto made = [](const std::string& name, const Options& options) {
        return make<RandomPhotometric>(name, options);
    };
    EXPECT_EQ(made("random_posterize", {{"bits", 3.0}}).kind, Photometric::posterize);
    EXPECT_EQ(made("random_posterize", {{"bits", 3.0}}).amount, 3);
    EXPECT_EQ(made("random_posterize", {{"bits", 3.0}}).probability, 0.5f);
    EXPECT_EQ(made("random_solarize", {{"threshold", 99.5}}).kind, Photometric::solarize);
    EXPECT_EQ(made("random_solarize", {{"threshold", 99.5}, {"p", 0.25}}).probability, 0.25f);
    EXPECT_EQ(made("random_adjust_sharpness", {{"sharpness_factor", 2.0}}).kind, Photometric::sharpness);
    EXPECT_EQ(made("random_invert", {}).kind, Photometric::invert);
    EXPECT_EQ(made("random_equalize", {}).kind, Photometric::equalize);
    EXPECT_EQ(made("random_autocontrast", {}).kind, Photometric::autocontrast);
    EXPECT_EQ(make<RandomGrayscale>("grayscale", {}).probability, 1);
    expect_refused("random_posterize", {}, ".bits] expected a number from 0 to 8, got none");
    expect_refused("random_posterize", {{"bits", 2.5}}, ".bits] expected a whole number from 0 to 8");
    expect_refused("random_solarize", {{"threshold", 256.0}}, ".threshold] expected a number from 0 to 255");
    expect_refused("random_adjust_sharpness", {{"factor", 2.0}}, "sharpness_factor");
}

TEST(PixelOpTable, PerspectiveElasticAndTimmsRandAugment) {
    const auto plain = make<RandomPerspective>("random_perspective", {});
    EXPECT_EQ(plain.distortion, 0.5f);
    EXPECT_EQ(plain.interpolation, Interpolation::bilinear);
    EXPECT_EQ(make<RandomPerspective>("random_perspective", {{"interpolation", "nearest"}}).interpolation,
              Interpolation::nearest);
    expect_refused("random_perspective", {{"distortion_scale", 1.5}}, ".distortion_scale] expected a number");
    const auto waves = make<ElasticTransform>("elastic_transform", {{"alpha", 20.0}, {"sigma", Numbers{0, 3}}});
    EXPECT_EQ(waves.alpha, (std::array<float, 2>{20, 20}));
    EXPECT_EQ(waves.sigma, (std::array<float, 2>{0, 3}));
    EXPECT_EQ(waves.interpolation, Interpolation::bilinear);
    expect_refused("elastic_transform", {{"sigma", 101.0}}, ".sigma] expected a number from 0 to 100");
    const auto timm = make<TimmRandAugment>("timm_rand_augment", {});
    EXPECT_EQ(timm.num_ops, 2);
    EXPECT_EQ(timm.magnitude, 10);
    EXPECT_FALSE(timm.interpolation || timm.fill || timm.increasing);
    const auto full = make<TimmRandAugment>("timm_rand_augment", {{"num_ops", 3.0},
                                                                  {"magnitude", 15.0},
                                                                  {"magnitude_std", 0.5},
                                                                  {"max_magnitude", 20.0},
                                                                  {"increasing", true},
                                                                  {"p", 0.25},
                                                                  {"interpolation", "bicubic"},
                                                                  {"fill", Numbers{124, 116, 104}}});
    EXPECT_EQ(full.num_ops, 3);
    EXPECT_EQ(full.magnitude, 15);
    EXPECT_EQ(full.magnitude_std, 0.5f);
    EXPECT_EQ(full.most, 20);
    EXPECT_TRUE(full.increasing && full.fill);
    EXPECT_EQ(full.probability, 0.25f);
    EXPECT_EQ(full.interpolation, Interpolation::bicubic);
    expect_refused("timm_rand_augment", {{"magnitude", 31.0}}, ".magnitude] expected a number from 0 to 30");
}

TEST(PixelOpTable, RandAndAutoAugment) {
    const auto plain = make<RandAugment>("rand_augment", {});
    EXPECT_EQ(plain.num_ops, 2);
    EXPECT_EQ(plain.magnitude, 9);
    EXPECT_EQ(plain.bins, 31);
    EXPECT_FALSE(plain.fill);
    const auto full = make<RandAugment>("rand_augment", {{"num_ops", 4.0},
                                                         {"magnitude", 10.0},
                                                         {"num_magnitude_bins", 11.0},
                                                         {"interpolation", "bilinear"},
                                                         {"fill", 1.0}});
    EXPECT_EQ(full.num_ops, 4);
    EXPECT_EQ(full.magnitude, 10);
    EXPECT_EQ(full.bins, 11);
    EXPECT_EQ(full.interpolation, Interpolation::bilinear);
    EXPECT_TRUE(full.fill);
    expect_refused("rand_augment", {{"magnitude", 31.0}}, ".magnitude] expected a number from 0 to 30, got 31");
    expect_refused("rand_augment", {{"num_magnitude_bins", 5.0}}, ".magnitude] expected a magnitude below");
    expect_refused("rand_augment", {{"num_ops", 1.5}}, ".num_ops] expected a whole number");
    EXPECT_EQ(make<AutoAugment>("auto_augment", {}).policy, AutoAugmentPolicy::imagenet);
    EXPECT_EQ(make<AutoAugment>("auto_augment", {{"policy", "svhn"}}).policy, AutoAugmentPolicy::svhn);
    EXPECT_EQ(make<AutoAugment>("auto_augment", {{"policy", "cifar10"}}).policy, AutoAugmentPolicy::cifar10);
    expect_refused("auto_augment", {{"policy", "cifar"}}, "one of imagenet, cifar10, svhn");
}

}  // namespace
}  // namespace stoker::pixel_ops_test
