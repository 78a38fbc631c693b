// Crops of dct records: their pixels are those of DctDecoder for the same box, and a damaged record fails in the same
// way.
#include "stoker/codecs/dct/dct_crop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <limits>

#include "codecs/dct/dct_crop_memory.h"
#include "codecs/jpeg/jpeg_files.h"
#include "stoker/codecs/dct/dct.h"
#include "stoker/codecs/dct/dct_pixels.h"
#include "support/data.h"

namespace stoker {
namespace {

using namespace stoker::testing;

constexpr std::size_t kAll = std::numeric_limits<std::size_t>::max();

// One of each for all records of a test, as in a worker.
struct Both {
    DctDecoder decoder;
    DctCropper cropper;

    // The pixels of the box, or the error.
    std::string decode(const Bytes& record, const Box& box, Image& image) {
        BoxSink sink(box, image);
        return error_of([&] { decoder.decode(record, sink); });
    }
    std::string crop(const Bytes& record, const Box& box, DctCropMemory& memory) {
        return error_of([&] {
            cropper.open(record);
            memory.add(cropper.crop(box, kAll));
            dct_pixels(memory.batch());
        });
    }

    void check(const Bytes& record, const Box& box) {
        Image expected;
        DctCropMemory memory;
        const std::string error = decode(record, box, expected);
        ASSERT_EQ(crop(record, box, memory), error);
        if (error == "no DataError") {
            ASSERT_TRUE(same_pixels(memory.image(0), expected.view()))
                << box.height << " rows from " << box.top << ", " << box.width << " columns from " << box.left;
        }
    }
};

struct Sampling {
    std::array<int, 3> h;
    std::array<int, 3> v;
};
constexpr Sampling kSamplings[] = {{{1, 1, 1}, {1, 1, 1}}, {{2, 1, 1}, {1, 1, 1}}, {{2, 1, 1}, {2, 1, 1}},
                                   {{1, 1, 1}, {2, 1, 1}}, {{4, 1, 1}, {2, 1, 1}}, {{1, 2, 1}, {1, 2, 1}},
                                   {{2, 2, 1}, {2, 1, 2}}, {{1, 1, 1}, {4, 1, 2}}};

JpegPlan plan_of(Rng& rng) {
    const auto below = [&rng](int bound) { return static_cast<int>(rng.below(static_cast<std::uint32_t>(bound))); };
    const Sampling& sampling = kSamplings[rng.below(std::size(kSamplings))];
    return {.width = 1 + below(rng.chance(0.2f) ? 8 : 120),
            .height = 1 + below(rng.chance(0.2f) ? 8 : 120),
            .colors = std::array{Colors::grey, Colors::ycc, Colors::ycc, Colors::ycc, Colors::rgb}[rng.below(5)],
            .h = sampling.h,
            .v = sampling.v,
            .quality = rng.chance(0.3f) ? 100 : 1 + below(100),
            .wide_quant = rng.chance(0.2f),
            .content = static_cast<Content>(rng.below(4)),
            .seed = rng.next()};
}

TEST(DctCrop, HasThePixelsOfTheDecoder) {
    Rng rng({.seed = 31});
    Both both;
    for (int i = 0; i < 400 / kSlow; ++i) {
        const JpegPlan plan = plan_of(rng);
        SCOPED_TRACE(plan.text());
        const Bytes record = encode_dct(make_jpeg(plan), kDctKinds[i % 3]).bytes;
        ASSERT_NO_FATAL_FAILURE(both.check(record, {0, 0, plan.height, plan.width}));
        for (int box = 0; box < 4; ++box) {
            ASSERT_NO_FATAL_FAILURE(both.check(record, random_box(rng, plan.height, plan.width)));
        }
    }
}

TEST(DctCrop, HasThePixelsOfEveryBoxOfASmallImage) {
    Both both;
    for (const Sampling& sampling : kSamplings) {
        const JpegPlan plan{.width = 19, .height = 21, .h = sampling.h, .v = sampling.v, .content = Content::noise};
        const Bytes record = encode_dct(make_jpeg(plan)).bytes;
        for (int top = 0; top < plan.height; ++top) {
            for (int left = 0; left < plan.width; ++left) {
                ASSERT_NO_FATAL_FAILURE(both.check(record, {top, left, 1 + top % 2, 1 + left % 2})) << plan.text();
            }
        }
    }
}

TEST(DctCrop, HasThePixelsOfPhotographs) {
    STOKER_SKIP_WITHOUT(photos, "photos");
    Rng rng({.seed = 5});
    Both both;
    int number = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(photos)) {
        if (!entry.is_regular_file() || number++ % kSlow != 0) {
            continue;
        }
        std::ifstream file(entry.path(), std::ios::binary);
        const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
        const Bytes record = encode_dct(bytes_of(text), kDctKinds[number % 3]).bytes;
        const ImageInfo info = both.cropper.open(record);
        ASSERT_NO_FATAL_FAILURE(both.check(record, random_box(rng, info.height, info.width))) << entry.path();
    }
    EXPECT_GT(number, 0);
}

// Damage is seen where the decoder sees it, and only there: the same errors, the same pixels.
TEST(DctCrop, FailsAsTheDecoderDoes) {
    Rng rng({.seed = 77});
    Both both;
    int damaged = 0;
    for (int i = 0; i < 3000 / kSlow; ++i) {
        const JpegPlan plan = plan_of(rng);
        const Bytes record = mutated(encode_dct(make_jpeg(plan), kDctKinds[i % 3]).bytes, rng);
        ImageInfo info;
        if (error_of([&] { info = both.cropper.open(record); }) != "no DataError" ||
            std::int64_t{info.height} * info.width > 1 << 20) {
            continue;
        }
        const Box box = random_box(rng, info.height, info.width);
        ASSERT_NO_FATAL_FAILURE(both.check(record, box)) << plan.text();
        Image image;
        damaged += both.decode(record, box, image) != "no DataError" ? 1 : 0;
    }
    EXPECT_GT(damaged, 50 / kSlow);
}

TEST(DctCrop, HoldsNoMoreThanTheBoxNeeds) {
    const JpegPlan plan{.width = 640, .height = 480, .quality = 90, .content = Content::noise};
    const Bytes record = encode_dct(make_jpeg(plan)).bytes;
    DctCropper cropper;
    cropper.open(record);
    const std::size_t whole = cropper.crop({0, 0, 480, 640}, kAll).size();
    const std::size_t quarter = cropper.crop({0, 0, 240, 320}, kAll).size();
    EXPECT_LT(whole, record.size() * 11 / 10);
    EXPECT_LT(quarter, whole * 28 / 100);
    EXPECT_TRUE(cropper.crop({0, 0, 240, 320}, quarter - 1).empty());
    EXPECT_FALSE(cropper.crop({0, 0, 240, 320}, quarter).empty());
}

}  // namespace
}  // namespace stoker
