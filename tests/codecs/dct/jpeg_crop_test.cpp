// Crops of plain JPEGs: their pixels are those of libjpeg for the same box, files that only the host decodes have none,
// and a damaged scan is seen.
#include "stoker/codecs/dct/jpeg_crop.h"

#include <gtest/gtest.h>

#include <limits>

#include "codecs/dct/dct_crop_memory.h"
#include "codecs/dct/jpeg_crops.h"
#include "stoker/codecs/jpeg/jpeg.h"

namespace stoker {
namespace {

using namespace stoker::testing;

void expect_pixels(JpegCropper& cropper, const Bytes& jpeg, const Image& whole, const Box& box,
                   const EntryPoints& points) {
    cropper.open(jpeg);
    const auto crop = cropper.crop(box, points, kAllBytes);
    ASSERT_FALSE(crop.empty());
    DctCropMemory memory;
    memory.add(crop);
    dct_pixels(memory.batch());
    EXPECT_EQ(memory.places[0].damaged, 0U);
    ASSERT_TRUE(same_pixels(memory.image(0), whole.view().crop(box)))
        << box.height << " rows from " << box.top << ", " << box.width << " columns from " << box.left;
}

TEST(JpegCrop, HasThePixelsOfLibjpeg) {
    Rng rng({.seed = 3});
    JpegCropper cropper;
    for (int i = 0; i < 200 / kSlow; ++i) {
        const JpegPlan plan = plan_with_points(rng);
        SCOPED_TRACE(plan.text());
        const Bytes jpeg = make_jpeg(plan);
        const Image whole = libjpeg_pixels(jpeg);
        const EntryPoints points = points_of(jpeg);
        ASSERT_NO_FATAL_FAILURE(expect_pixels(cropper, jpeg, whole, {0, 0, plan.height, plan.width}, points));
        for (int box = 0; box < 4; ++box) {
            ASSERT_NO_FATAL_FAILURE(
                expect_pixels(cropper, jpeg, whole, random_box(rng, plan.height, plan.width), points));
        }
    }
}

TEST(JpegCrop, HoldsNoMoreThanTheBoxNeeds) {
    const Bytes jpeg = make_jpeg({.width = 640, .height = 480, .quality = 90, .content = Content::noise});
    const EntryPoints points = points_of(jpeg);
    JpegCropper cropper;
    cropper.open(jpeg);
    const std::size_t whole = cropper.crop({0, 0, 480, 640}, points, kAllBytes).size();
    const std::size_t quarter = cropper.crop({0, 0, 240, 320}, points, kAllBytes).size();
    EXPECT_LT(whole, jpeg.size() * 11 / 10);
    EXPECT_LT(quarter, whole * 36 / 100);
    EXPECT_TRUE(cropper.crop({0, 0, 240, 320}, points, quarter - 1).empty());
    EXPECT_FALSE(cropper.crop({0, 0, 240, 320}, points, quarter).empty());
}

TEST(JpegCrop, OthersAreTheHosts) {
    JpegCropper cropper;
    const auto crop = [&](const Bytes& jpeg, const Box& box, const EntryPoints& points) {
        cropper.open(jpeg);
        return cropper.crop(box, points, kAllBytes).size();
    };
    const JpegPlan plan{.width = 200, .height = 160};
    const Bytes jpeg = make_jpeg(plan);
    const EntryPoints points = points_of(jpeg);
    const Box all{0, 0, 160, 200};
    EXPECT_GT(crop(jpeg, all, points), 0U);
    EXPECT_EQ(crop(jpeg, all, {}), 0U);
    for (JpegPlan other :
         {JpegPlan{.progressive = true}, JpegPlan{.arithmetic = true}, JpegPlan{.separate_scans = true},
          JpegPlan{.restart_interval = 2}, JpegPlan{.colors = Colors::cmyk}}) {
        other.width = plan.width;
        other.height = plan.height;
        EXPECT_EQ(crop(make_jpeg(other), all, points), 0U) << other.text();
    }
    EntryPoints first_rows = points;
    const std::size_t wide = (plan.width / 16 + points.step) / points.step;
    first_rows.points.resize(4 * wide + 1);
    EXPECT_GT(crop(jpeg, {0, 0, 40, 200}, first_rows), 0U);
    EXPECT_EQ(crop(jpeg, {100, 0, 40, 200}, first_rows), 0U);
    Bytes without_end = jpeg;
    without_end.resize(without_end.size() - 2);
    EXPECT_EQ(crop(without_end, all, points), 0U);
    EXPECT_GT(crop(without_end, {0, 0, 40, 200}, points), 0U) << "the decoder does not see the end then, either";
    EntryPoints beyond = points;
    beyond.points.back().byte = std::numeric_limits<std::uint32_t>::max();
    EXPECT_EQ(crop(jpeg, all, beyond), 0U);
}

TEST(JpegCrop, DamagedHeadersFailAsInTheDecoder) {
    JpegCropper cropper;
    JpegDecoder decoder;
    Bytes jpeg = make_jpeg({});
    jpeg.resize(200);
    const std::string error = error_of([&] { cropper.open(jpeg); });
    EXPECT_NE(error, "no DataError");
    EXPECT_EQ(error, error_of([&] { decoder.info(jpeg); }));
    EXPECT_EQ(cropper.open(make_jpeg({.width = 33})).width, 33) << "the next one";
}

// Points of a file whose bits changed since: damage is seen where the decoder sees it, and only there. (A bit of a
// value changes no length: nobody sees it.)
TEST(JpegCrop, DamageIsSeenAsByTheDecoder) {
    Rng rng({.seed = 8});
    JpegCropper cropper;
    JpegDecoder decoder;
    int seen = 0;
    int unseen = 0;
    for (int i = 0; i < 600 / kSlow; ++i) {
        const JpegPlan plan = plan_with_points(rng);
        SCOPED_TRACE(plan.text());
        Bytes jpeg = make_jpeg(plan);
        const EntryPoints points = points_of(jpeg);
        const std::size_t scan = find_marker(jpeg, 0xda) + (plan.components() == 1 ? 10 : 14);
        const std::size_t at = scan + rng.below(static_cast<std::uint32_t>(jpeg.size() - scan));
        jpeg[at] ^= std::byte{1} << rng.below(8);
        const Box box = random_box(rng, plan.height, plan.width);
        EntryPointSlot known{.known = points};
        Image expected;
        BoxSink sink(box, expected);
        error_of([&] { decoder.decode(jpeg, sink, &known); });
        cropper.open(jpeg);
        const auto crop = cropper.crop(box, points, kAllBytes);
        DctCropMemory memory;
        if (!crop.empty()) {
            memory.add(crop);
            dct_pixels(memory.batch());
        }
        const bool damaged = crop.empty() || memory.places[0].damaged != 0;
        ASSERT_EQ(damaged, known.known.points.empty());
        ASSERT_TRUE(damaged || same_pixels(memory.image(0), expected.view()));
        ++(damaged ? seen : unseen);
    }
    EXPECT_GT(seen, 50 / kSlow);
    EXPECT_GT(unseen, 50 / kSlow);
}

}  // namespace
}  // namespace stoker
