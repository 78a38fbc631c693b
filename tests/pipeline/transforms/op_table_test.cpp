// The ops a recipe may name: every option, its default, and the errors that name their place.
#include "stoker/pipeline/transforms/op_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <memory>

#include "stoker/base/error.h"

namespace stoker {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using Options = std::map<std::string, OptionValue>;
using Numbers = std::vector<double>;

template <typename T>
T make(const std::string& name, const Options& options) {
    return std::get<T>(make_ops({{.name = name, .options = options, .where = "r.toml:3: data.train_ops[0]"}}).front());
}

void expect_refused(const std::string& name, const Options& options, const std::string& message) {
    try {
        make_ops({{.name = name, .options = options, .where = "r.toml:3: data.train_ops[0]"}});
        ADD_FAILURE() << "accepted, instead of: " << message;
    } catch (const InvalidArgument& error) {
        EXPECT_THAT(error.what(), HasSubstr(message));
        EXPECT_THAT(error.what(), HasSubstr("[r.toml:3: data.train_ops[0]"));
    }
}

TEST(OpTable, Resize) {
    const auto shorter = make<Resize>("resize", {{"size", 256.0}});
    EXPECT_EQ(shorter.shorter, 256);
    EXPECT_FALSE(shorter.size);
    EXPECT_EQ(make<Resize>("resize", {{"size", Numbers{256}}}).shorter, 256) << "torchvision takes [256] so";
    const auto exact = make<Resize>("resize", {{"size", Numbers{20, 30}}});
    EXPECT_EQ(exact.size, (ImageSize{20, 30}));
}

TEST(OpTable, CenterCrop) {
    const auto square = make<CenterCrop>("center_crop", {{"size", 224.0}});
    EXPECT_EQ(square.height, 224);
    EXPECT_EQ(square.width, 224);
    const auto oblong = make<CenterCrop>("center_crop", {{"size", Numbers{20, 30}}});
    EXPECT_EQ(oblong.height, 20);
    EXPECT_EQ(oblong.width, 30);
}

TEST(OpTable, RandomResizedCrop) {
    const auto plain = make<RandomResizedCrop>("random_resized_crop", {{"size", 224.0}});
    EXPECT_EQ(plain.height, 224);
    EXPECT_EQ(plain.width, 224);
    EXPECT_FLOAT_EQ(plain.scale_low, 0.08f);
    EXPECT_FLOAT_EQ(plain.scale_high, 1.0f);
    EXPECT_FLOAT_EQ(plain.ratio_low, 0.75f);
    EXPECT_FLOAT_EQ(plain.ratio_high, 4.0f / 3.0f);
    const auto full = make<RandomResizedCrop>(
        "random_resized_crop", {{"size", Numbers{8, 9}}, {"scale", Numbers{0.5, 0.9}}, {"ratio", Numbers{1, 2}}});
    EXPECT_EQ(full.height, 8);
    EXPECT_EQ(full.width, 9);
    EXPECT_FLOAT_EQ(full.scale_low, 0.5f);
    EXPECT_FLOAT_EQ(full.scale_high, 0.9f);
    EXPECT_FLOAT_EQ(full.ratio_low, 1);
    EXPECT_FLOAT_EQ(full.ratio_high, 2);
}

TEST(OpTable, HorizontalFlip) {
    EXPECT_EQ(make<HorizontalFlip>("horizontal_flip", {}).probability, 0.5f);
    EXPECT_EQ(make<HorizontalFlip>("horizontal_flip", {{"p", 0.25}}).probability, 0.25f);
    EXPECT_EQ(make<HorizontalFlip>("horizontal_flip", {{"p", 1.0}}).probability, 1);
}

TEST(OpTable, Normalize) {
    EXPECT_EQ(make<Normalize>("normalize", {}).std, Normalize().std);
    EXPECT_EQ(make<Normalize>("normalize", {{"preset", "imagenet"}}).mean, kImageNetNormalize.mean);
    EXPECT_EQ(make<Normalize>("normalize", {{"preset", "cifar10"}}).std, kCifar10Normalize.std);
    const auto own = make<Normalize>("normalize", {{"mean", Numbers{0.1, 0.2, 0.3}}, {"std", 0.5}});
    EXPECT_FLOAT_EQ(own.mean[0], 0.1f);
    EXPECT_FLOAT_EQ(own.mean[1], 0.2f);
    EXPECT_FLOAT_EQ(own.mean[2], 0.3f);
    EXPECT_THAT(own.std, Each(0.5f)) << "one number is for all channels";
    const auto mixed = make<Normalize>("normalize", {{"preset", "imagenet"}, {"std", 2.0}});
    EXPECT_EQ(mixed.mean, kImageNetNormalize.mean);
    EXPECT_EQ(mixed.std[0], 2);
}

TEST(OpTable, NormalizeKnowsForHowManyChannelsItIs) {
    const auto channels = [](const std::map<std::string, OptionValue>& options) {
        return make<Normalize>("normalize", options).channels;
    };
    EXPECT_EQ(channels({}), 0);
    EXPECT_EQ(channels({{"preset", "mnist"}}), 0);
    EXPECT_EQ(channels({{"preset", "imagenet"}}), 3);
    EXPECT_EQ(channels({{"mean", 0.5}, {"std", Numbers{0.5}}}), 0);
    EXPECT_EQ(channels({{"mean", Numbers{0.5, 0.4}}, {"std", 0.5}}), 2);
    EXPECT_EQ(channels({{"std", Numbers{1, 2, 3, 4}}}), 4);
    expect_refused("normalize", {{"mean", Numbers{0, 1, 2}}, {"std", Numbers{1, 2}}},
                   ".std] expected 3 numbers, or one for all channels, got [1, 2]");
    expect_refused("normalize", {{"preset", "cifar10"}, {"mean", Numbers{0, 1}}}, ".mean] expected 3 numbers");
}

// MNIST's digits stored as PNG decode to RGB: all three channels are normalised alike.
TEST(OpTable, MnistPresetServesGreyAsRgb) {
    const auto mnist = make<Normalize>("normalize", {{"preset", "mnist"}});
    for (std::size_t c = 0; c < 3; ++c) {
        EXPECT_EQ(mnist.mean[c], kMnistNormalize.mean[0]);
        EXPECT_EQ(mnist.std[c], kMnistNormalize.std[0]);
    }
}

TEST(OpTable, UnknownOpsAndOptionsAreNamedBesideTheKnown) {
    expect_refused(
        "rotate", {},
        "random_erasing, to_float, window, normalize, normalize_range, random_apply, random_choice, mel_spectrogram, "
        "amplitude_to_db, gain, spec_augment, got \"rotate\"");
    expect_refused("resize", {{"size", 4.0}, {"sizes", 3.0}},
                   "expected an option of resize: size, interpolation, got sizes");
    expect_refused("random_resized_crop", {{"size", 4.0}, {"sclae", Numbers{0.1, 1}}},
                   "size, scale, ratio, interpolation, got sclae");
    expect_refused("normalize", {{"preset", "mnist"}, {"sdt", 1.0}}, "preset, mean, std, got sdt");
    expect_refused("grayscale", {{"p", 1.0}}, "an option of grayscale: it has none, got p");
}

TEST(OpTable, MisspeltOptionsNameTheLikelyOne) {
    expect_refused("resize", {{"siez", 32.0}}, "expected the option size for resize, got siez; did you mean \"size\"?");
    expect_refused("resize", {{"size", 4.0}, {"sizes", 3.0}}, "got sizes; did you mean \"size\"?");
    expect_refused("random_crop", {{"size", 4.0}, {"pading", 3.0}}, "got pading; did you mean \"padding\"?");
    expect_refused("random_rotation", {{"degree", 3.0}},
                   ".degree] expected an option of random_rotation, got degree; did you mean \"degrees\"?");
    expect_refused("normalize", {{"preset", "imagnet"}}, "got \"imagnet\"; did you mean \"imagenet\"?");
    expect_refused("resize", {{"padding", 3.0}}, "got none; write {op = \"resize\", size = 224}");
}

TEST(OpTable, SizesThatCannotBe) {
    for (const char* name : {"resize", "center_crop", "random_resized_crop"}) {
        expect_refused(name, {}, "the option size");
        for (const double side : {0.0, -3.0, 2.5, 40'000.0, 1e300, std::numeric_limits<double>::quiet_NaN()}) {
            expect_refused(name, {{"size", side}}, ".size] expected whole pixels from 1 to 32768");
            expect_refused(name, {{"size", Numbers{5, side}}}, ".size] expected whole pixels from 1 to 32768");
        }
        expect_refused(name, {{"size", Numbers{}}}, "a number or a list of up to 2 numbers, got []");
        expect_refused(name, {{"size", Numbers{1, 2, 3}}}, "a number or a list of up to 2 numbers, got [1, 2, 3]");
        expect_refused(name, {{"size", std::string("big")}}, "a number or a list of up to 2 numbers, got \"big\"");
        expect_refused(name, {{"size", true}}, "a number or a list of up to 2 numbers, got true");
    }
}

TEST(OpTable, ValuesThatCannotBe) {
    constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    for (const double p : {-0.1, 1.1, kNan}) {
        expect_refused("horizontal_flip", {{"p", p}}, ".p] expected a number from 0 to 1");
    }
    expect_refused("horizontal_flip", {{"p", Numbers{0.5}}}, ".p] expected a number from 0 to 1, got [0.5]");
    for (const Numbers& range : {Numbers{0, 1}, {0.5, 0.4}, {-1, 1}, {0.5, 1.5}, {kNan, 1}, {0.5, kNan}, {1e-300, 1}}) {
        expect_refused("random_resized_crop", {{"size", 8.0}, {"scale", range}}, ".scale] expected [low, high]");
    }
    expect_refused("random_resized_crop", {{"size", 8.0}, {"scale", 0.5}}, "a list of 2 numbers");
    for (const Numbers& range : {Numbers{0, 1}, {1e-300, 1}, {2, 1}, {1, 1e9}, {1, kInfinity}}) {
        expect_refused("random_resized_crop", {{"size", 8.0}, {"ratio", range}}, ".ratio] expected [low, high]");
    }
    for (const double std : {0.0, -1.0, kNan, kInfinity, 1e-300}) {
        expect_refused("normalize", {{"std", std}}, ".std] expected finite numbers above 0");
    }
    for (const double mean : {kNan, kInfinity, 1e300}) {
        expect_refused("normalize", {{"mean", mean}}, ".mean] expected finite numbers");
    }
    expect_refused("normalize", {{"mean", Numbers(65, 0.5)}}, "up to 64 numbers");
    const auto range = [](double low, double high) {
        return std::map<std::string, OptionValue>{{"percentiles", Numbers{low, high}}};
    };
    expect_refused("normalize_range", range(50, 50), "0 <= low < high <= 100");
    expect_refused("normalize_range", range(1, 101), "0 <= low < high <= 100");
    expect_refused("window", {{"center", 40.0}}, "width");
    expect_refused("window", {{"center", 40.0}, {"width", 0.0}}, ".width]");
    expect_refused("normalize", {{"preset", "imagnet"}}, "one of imagenet, mnist, cifar10, got \"imagnet\"");
    expect_refused("normalize", {{"preset", 1.0}}, ".preset] expected a string, got 1");
}

struct FillWith : CustomOp {
    explicit FillWith(int own) : value(own) {}
    void apply(ImageView image, Rng) const override {
        for (int row = 0; row < image.height; ++row) {
            std::fill_n(image.row(row), image.width * image.channels, static_cast<std::uint8_t>(value));
        }
    }
    int value;
};

TEST(OpTable, AnOpOfTheProgramIsMadeFromARecipe) {
    const auto register_fill = [] {
        register_op("fill_with",
                    [](OpOptions& options) { return std::make_shared<FillWith>(options.whole("value", 7, 0, 255)); });
    };
    expect_refused("fill_with", {}, "expected an op:");
    register_fill();
    const auto own = std::get<std::shared_ptr<const CustomOp>>(make<PixelOp>("fill_with", {{"value", 9.0}}));
    EXPECT_EQ(dynamic_cast<const FillWith&>(*own).value, 9);
    expect_refused("fill_with", {{"valeu", 9.0}}, "valeu");
    expect_refused("fill_with", {{"value", 300.0}}, "value");
    expect_refused("fill_wiht", {}, "fill_with");
    EXPECT_THROW(register_fill(), InvalidArgument) << "the name is taken";
    EXPECT_THROW(register_op("resize", [](OpOptions&) { return std::make_shared<FillWith>(0); }), InvalidArgument);
}

}  // namespace
}  // namespace stoker
