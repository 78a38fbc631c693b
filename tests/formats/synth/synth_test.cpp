// Data that Stoker draws: the same bytes for the same arguments on every thread and in every order, other bytes for
// other arguments, and images that can be told apart by class.
#include "stoker/formats/synth/synth_digits.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "stoker/base/error.h"
#include "stoker/base/parallel_for.h"
#include "stoker/formats/synth/synth_photos.h"

namespace stoker {
namespace {

using Pixels = std::vector<std::uint8_t>;

constexpr int kSide = 28;
constexpr std::size_t kPixels = kSide * kSide;

struct Digit {
    Pixels pixels;
    std::int64_t label = -1;

    bool operator==(const Digit&) const = default;
};

Digit read_digit(const Dataset& dataset, std::int64_t index) {
    Sample sample;
    dataset.read(index, sample);
    const auto* data = reinterpret_cast<const std::uint8_t*>(sample.bytes.data());
    return {Pixels(data, data + sample.bytes.size()), sample.label};
}

std::vector<Digit> read_digits(const Dataset& dataset, std::int64_t count) {
    std::vector<Digit> digits;
    for (std::int64_t i = 0; i < count; ++i) {
        digits.push_back(read_digit(dataset, i));
    }
    return digits;
}

double mean(const Pixels& pixels) {
    double sum = 0;
    for (const std::uint8_t value : pixels) {
        sum += value;
    }
    return sum / static_cast<double>(pixels.size());
}

TEST(SynthDigits, DescribesItself) {
    const auto train = make_synth_digits(Split::train, kSynthDigitsTrain, 3);
    const auto test = make_synth_digits(Split::test, 10'000, 3);
    EXPECT_EQ(train->size(), 60000);
    EXPECT_EQ(test->size(), 10000);
    EXPECT_EQ(train->key(123), "train/123");
    EXPECT_EQ(test->key(0), "test/0");
    EXPECT_EQ(train->format(), "synth:digits");
    EXPECT_EQ(train->path(), "synth:digits?count=60000&seed=3");
    EXPECT_EQ(train->bytes(), 60000 * 784);
    EXPECT_THAT(train->classes(), testing::ElementsAre("0", "1", "2", "3", "4", "5", "6", "7", "8", "9"));
}

TEST(SynthDigits, SamplesAreRawPixelsInTheSamplesOwnMemory) {
    const auto dataset = make_synth_digits(Split::train, 10, 0);
    Sample sample;
    sample.encoded = true;
    for (std::int64_t i = 0; i < 10; ++i) {
        dataset->read(i, sample);
        EXPECT_FALSE(sample.encoded);
        EXPECT_EQ(sample.height, kSide);
        EXPECT_EQ(sample.width, kSide);
        EXPECT_EQ(sample.channels, 1);
        EXPECT_EQ(sample.bytes.size(), kPixels);
        EXPECT_EQ(sample.bytes.data(), sample.storage.data());
    }
}

TEST(SynthDigits, RefusesWhatIsNotThere) {
    EXPECT_THROW(make_synth_digits(Split::train, 0, 0), InvalidArgument);
    EXPECT_THROW(make_synth_digits(Split::test, -5, 0), InvalidArgument);
    const auto dataset = make_synth_digits(Split::train, 10, 0);
    Sample sample;
    EXPECT_THROW(dataset->read(10, sample), InvalidArgument);
    EXPECT_THROW(dataset->read(-1, sample), InvalidArgument);
}

TEST(SynthDigits, ImageIsAFunctionOfSeedSplitAndIndexAlone) {
    const auto digits = read_digits(*make_synth_digits(Split::train, 64, 7), 64);
    EXPECT_EQ(read_digits(*make_synth_digits(Split::train, 100000, 7), 64), digits) << "the count must not matter";

    const auto other_split = read_digits(*make_synth_digits(Split::test, 64, 7), 64);
    const auto other_seed = read_digits(*make_synth_digits(Split::train, 64, 8), 64);
    const auto other_half = read_digits(*make_synth_digits(Split::train, 64, 7 + (std::uint64_t{1} << 32)), 64);
    std::set<std::string> distinct;
    for (const auto* set : {&digits, &other_split, &other_seed, &other_half}) {
        for (const Digit& digit : *set) {
            distinct.emplace(digit.pixels.begin(), digit.pixels.end());
        }
    }
    EXPECT_EQ(distinct.size(), 4u * 64u);
}

TEST(SynthDigits, LabelsOfSplitsAndSeedsAreUnrelated) {
    constexpr std::int64_t kCount = 2000;
    const auto a = read_digits(*make_synth_digits(Split::train, kCount, 1), kCount);
    const auto b = read_digits(*make_synth_digits(Split::test, kCount, 1), kCount);
    const auto c = read_digits(*make_synth_digits(Split::train, kCount, 2), kCount);
    int with_split = 0;
    int with_seed = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
        with_split += a[i].label == b[i].label;
        with_seed += a[i].label == c[i].label;
    }
    // 200 expected, standard deviation 13.4.
    EXPECT_NEAR(with_split, 200, 60);
    EXPECT_NEAR(with_seed, 200, 60);
}

TEST(SynthDigits, BytesDoNotDependOnThreadsOrOrder) {
    constexpr std::int64_t kCount = 512;
    const auto dataset = make_synth_digits(Split::train, kCount, 5);
    const auto expected = read_digits(*dataset, kCount);
    for (const int threads : {2, 5}) {
        std::vector<Digit> got(kCount);
        parallel_for(threads, kCount, 3, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t i = end - 1; i >= begin; --i) {
                got[static_cast<std::size_t>(i)] = read_digit(*dataset, i);
            }
        });
        EXPECT_EQ(got, expected) << threads << " threads";
    }
}

TEST(SynthDigits, LabelsAreBalanced) {
    constexpr std::int64_t kCount = 10000;
    const auto dataset = make_synth_digits(Split::train, kCount, 11);
    std::array<int, 10> counts{};
    Sample sample;
    for (std::int64_t i = 0; i < kCount; ++i) {
        dataset->read(i, sample);
        ASSERT_GE(sample.label, 0);
        ASSERT_LT(sample.label, 10);
        ++counts[static_cast<std::size_t>(sample.label)];
    }
    // 1000 expected, standard deviation 30.
    EXPECT_THAT(counts, testing::Each(testing::AllOf(testing::Gt(850), testing::Lt(1150))));
}

TEST(SynthDigits, LookLikeMnist) {
    constexpr std::int64_t kCount = 3000;
    double sum = 0;
    for (const Digit& digit : read_digits(*make_synth_digits(Split::train, kCount, 2), kCount)) {
        const double brightness = mean(digit.pixels);
        sum += brightness;
        ASSERT_GT(brightness, 4);  // a thin digit 1
        ASSERT_LT(brightness, 90);
        ASSERT_GT(*std::max_element(digit.pixels.begin(), digit.pixels.end()), 120);
        double x = 0;
        double y = 0;
        for (std::size_t i = 0; i < kPixels; ++i) {
            x += digit.pixels[i] * (static_cast<double>(i % kSide) + 0.5);
            y += digit.pixels[i] * (static_cast<double>(i / kSide) + 0.5);
        }
        const double total = brightness * static_cast<double>(kPixels);
        ASSERT_NEAR(x / total, 14, 3.5) << "centred";
        ASSERT_NEAR(y / total, 14, 3.5) << "centred";
    }
    // MNIST's mean is 33.3.
    EXPECT_GT(sum / kCount, 24);
    EXPECT_LT(sum / kCount, 42);
}

TEST(SynthDigits, InkStaysInsideTheFrame) {
    for (const Digit& digit : read_digits(*make_synth_digits(Split::test, 5000, 4), 5000)) {
        for (std::size_t k = 0; k < kSide; ++k) {
            for (const std::size_t at : {k, (kSide - 1) * kSide + k, k * kSide, k * kSide + kSide - 1}) {
                ASSERT_EQ(digit.pixels[at], 0) << "border pixel " << at;
            }
        }
    }
}

// A nearest-mean classifier is far better than chance and far from perfect.
TEST(SynthDigits, CanBeLearntButNotTrivially) {
    std::array<std::vector<double>, 10> means;
    means.fill(std::vector<double>(kPixels));
    std::array<int, 10> counts{};
    for (const Digit& digit : read_digits(*make_synth_digits(Split::train, 4000, 6), 4000)) {
        const auto label = static_cast<std::size_t>(digit.label);
        ++counts[label];
        for (std::size_t i = 0; i < kPixels; ++i) {
            means[label][i] += digit.pixels[i];
        }
    }
    for (std::size_t label = 0; label < 10; ++label) {
        for (double& value : means[label]) {
            value /= counts[label];
        }
    }
    const auto distance = [&](const Pixels& pixels, std::size_t label) {
        double sum = 0;
        for (std::size_t i = 0; i < kPixels; ++i) {
            sum += (pixels[i] - means[label][i]) * (pixels[i] - means[label][i]);
        }
        return sum;
    };
    int right = 0;
    for (const Digit& digit : read_digits(*make_synth_digits(Split::test, 1000, 6), 1000)) {
        std::size_t best = 0;
        for (std::size_t label = 1; label < 10; ++label) {
            if (distance(digit.pixels, label) < distance(digit.pixels, best)) {
                best = label;
            }
        }
        right += static_cast<std::int64_t>(best) == digit.label;
    }
    EXPECT_GT(right, 600);
    EXPECT_LT(right, 920);
}

struct Photo {
    int height = 0;
    int width = 0;
    Pixels pixels;

    bool operator==(const Photo&) const = default;
};

Photo draw(std::int64_t index, int label, std::uint64_t seed) {
    Image image;
    draw_synth_photo(index, label, seed, image);
    EXPECT_EQ(image.channels(), 3);
    return {image.height(), image.width(), Pixels(image.view().data, image.view().data + image.bytes())};
}

TEST(SynthPhotos, ClassesAreSortedAsAFolderSortsThem) {
    EXPECT_TRUE(std::is_sorted(kSynthPhotoClasses.begin(), kSynthPhotoClasses.end()));
    EXPECT_THROW(draw(0, -1, 0), InvalidArgument);
    EXPECT_THROW(draw(0, 8, 0), InvalidArgument);
}

TEST(SynthPhotos, AreAFunctionOfTheirArguments) {
    Image reused(9, 9, 3);
    std::set<std::string> distinct;
    for (int label = 0; label < 8; ++label) {
        const Photo photo = draw(5, label, 1);
        draw_synth_photo(5, label, 1, reused);
        EXPECT_EQ(Pixels(reused.view().data, reused.view().data + reused.bytes()), photo.pixels);
        for (const Photo& other : {photo, draw(6, label, 1), draw(5, label, 2)}) {
            distinct.emplace(other.pixels.begin(), other.pixels.end());
        }
    }
    EXPECT_EQ(distinct.size(), 24u);
}

TEST(SynthPhotos, BytesDoNotDependOnThreads) {
    constexpr std::int64_t kCount = 16;
    std::vector<Photo> got(kCount);
    parallel_for(4, kCount, 1, [&](std::int64_t i, std::int64_t) {
        got[static_cast<std::size_t>(i)] = draw(i, static_cast<int>(i % 8), 3);
    });
    for (std::int64_t i = 0; i < kCount; ++i) {
        EXPECT_EQ(got[static_cast<std::size_t>(i)], draw(i, static_cast<int>(i % 8), 3)) << i;
    }
}

TEST(SynthPhotos, VaryInSizeAndLight) {
    std::set<std::pair<int, int>> sizes;
    double darkest = 255;
    double brightest = 0;
    for (std::int64_t i = 0; i < 24; ++i) {
        const Photo photo = draw(i, static_cast<int>(i % 8), 9);
        for (const int side : {photo.height, photo.width}) {
            EXPECT_GE(side, 320);
            EXPECT_LE(side, 640);
        }
        sizes.emplace(photo.height, photo.width);
        darkest = std::min(darkest, mean(photo.pixels));
        brightest = std::max(brightest, mean(photo.pixels));
    }
    EXPECT_GT(sizes.size(), 20u);
    EXPECT_LT(darkest, 100);
    EXPECT_GT(brightest, 140);
}

// Detail at every scale, down to the pixel, gives JPEG files the size of photographs.
TEST(SynthPhotos, HaveThePixelDetailOfPhotographs) {
    for (std::int64_t i = 0; i < 16; ++i) {
        const Photo photo = draw(i, static_cast<int>(i % 8), 0);
        double step = 0;
        for (std::size_t at = 3; at < photo.pixels.size(); ++at) {
            step += std::abs(photo.pixels[at] - photo.pixels[at - 3]);
        }
        step /= static_cast<double>(photo.pixels.size());
        EXPECT_GT(step, 3) << i;
        EXPECT_LT(step, 20) << i;
    }
}

}  // namespace
}  // namespace stoker
