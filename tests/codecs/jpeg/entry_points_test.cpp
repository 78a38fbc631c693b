// Entry points: boxes decoded with them equal the whole image, wrong ones are dropped, and those of fewer rows grow.
// Restart markers are entered in the same way.
#include "stoker/codecs/jpeg/entry_points.h"

#include <gtest/gtest.h>

#include "codecs/fixtures.h"
#include "codecs/jpeg/jpeg_files.h"
#include "stoker/codecs/jpeg/jpeg.h"

namespace stoker::testing {
namespace {

constexpr int kHeight = 150;
constexpr int kWidth = 270;

JpegPlan plan_of(int trial) {
    JpegPlan plan;
    plan.height = kHeight - trial % 7;
    plan.width = kWidth - trial % 9;
    plan.quality = 40 + 6 * (trial % 10);
    plan.colors = trial % 4 == 0 ? Colors::grey : Colors::ycc;
    plan.optimize = trial % 3 == 0;
    return plan;
}

Image whole_image(JpegDecoder& decoder, const Bytes& jpeg) {
    Image image;
    ImageSink sink(image);
    decoder.decode_reference(jpeg, sink);
    return image;
}

void expect_box(JpegDecoder& decoder, const Bytes& jpeg, const Image& whole, const Box& box, EntryPointSlot* points) {
    Image part;
    BoxSink sink(box, part);
    decoder.decode(jpeg, sink, points);
    ASSERT_TRUE(same_pixels(part.view(), whole.view().crop(box)))
        << box.top << " " << box.left << " " << box.height << " " << box.width;
}

// The points that decoding the whole image finds.
EntryPointSlot learned(JpegDecoder& decoder, const Bytes& jpeg) {
    EntryPointSlot points;
    Image image;
    ImageSink sink(image);
    decoder.decode(jpeg, sink, &points);
    return points;
}

TEST(EntryPoints, BoxesEqualTheWholeImage) {
    Rng rng({.seed = 21});
    JpegDecoder decoder;
    for (int trial = 0; trial < 40; ++trial) {
        const Bytes jpeg = make_jpeg(plan_of(trial));
        const Image whole = whole_image(decoder, jpeg);
        EntryPointSlot points = learned(decoder, jpeg);
        EXPECT_TRUE(points.grown);
        ASSERT_GT(points.known.points.size(), 9U);
        points.grown = false;
        for (int i = 0; i < 20; ++i) {
            expect_box(decoder, jpeg, whole, random_box(rng, whole.height(), whole.width()), &points);
        }
        expect_box(decoder, jpeg, whole, {.top = 0, .left = 0, .height = whole.height(), .width = whole.width()},
                   &points);
        EXPECT_FALSE(points.grown);
    }
}

// First with the rows above a box's end, then with all.
TEST(EntryPoints, GrowTwice) {
    JpegDecoder decoder;
    const Bytes jpeg = make_jpeg(plan_of(1));
    const Image whole = whole_image(decoder, jpeg);
    const EntryPoints all = learned(decoder, jpeg).known;
    EntryPointSlot points;
    points.complete = true;
    std::size_t before = 0;
    for (const int bottom : {10, 60, 50, whole.height()}) {
        points.grown = false;
        expect_box(decoder, jpeg, whole, {.top = bottom - 9, .left = 40, .height = 9, .width = 100}, &points);
        EXPECT_EQ(points.grown, points.known.points.size() > before) << bottom;
        EXPECT_EQ(points.grown, bottom == 10 || bottom == 60) << bottom;
        before = points.known.points.size();
    }
    EXPECT_EQ(points.known, all);
}

TEST(EntryPoints, GrowWithTheRowsThatAreDecoded) {
    JpegDecoder decoder;
    const Bytes jpeg = make_jpeg(plan_of(1));
    const Image whole = whole_image(decoder, jpeg);
    const EntryPoints all = learned(decoder, jpeg).known;
    EntryPointSlot points;
    for (const int bottom : {10, 60, 50, whole.height()}) {
        const std::size_t before = points.known.points.size();
        expect_box(decoder, jpeg, whole, {.top = bottom - 9, .left = 40, .height = 9, .width = 100}, &points);
        EXPECT_EQ(points.grown, points.known.points.size() > before) << bottom;
        EXPECT_EQ(points.grown, bottom != 50) << bottom;
    }
    EXPECT_EQ(points.known, all);
}

TEST(EntryPoints, WrongOnesAreDropped) {
    Rng rng({.seed = 22});
    JpegDecoder decoder;
    int dropped = 0;
    for (int trial = 0; trial < 400 / kSlow; ++trial) {
        const Bytes jpeg = make_jpeg(plan_of(trial % 20));
        const Image whole = whole_image(decoder, jpeg);
        EntryPointSlot points = learned(decoder, jpeg);
        std::vector<EntryPoint>& all = points.known.points;
        EntryPoint& point = all[rng.below(static_cast<std::uint32_t>(all.size()))];
        switch (trial % 6) {
            case 0:
                points = learned(decoder, make_jpeg(plan_of(trial + 1)));
                break;
            case 1:
                point.byte += rng.below(2) == 0 ? 1 : 0xffff'0000;
                break;
            case 2:
                point.bit = static_cast<std::uint8_t>(rng.below(256));
                break;
            case 3:
                point.dc[rng.below(3)] ^= static_cast<std::int16_t>(1 << rng.below(15));
                break;
            case 4:
                points.known.step = rng.below(100);
                break;
            default:
                all.resize(rng.below(static_cast<std::uint32_t>(all.size())));
                break;
        }
        const Box box = random_box(rng, whole.height(), whole.width());
        Image part;
        BoxSink sink(box, part);
        decoder.decode(jpeg, sink, &points);
        if (!points.known.points.empty()) {  // another piece was wrong, or its codes fell into step again
            continue;
        }
        ++dropped;
        ASSERT_TRUE(same_pixels(part.view(), whole.view().crop(box)));
        expect_box(decoder, jpeg, whole, box, &points);  // and learned anew
    }
    EXPECT_GT(dropped, 50 / kSlow);
}

TEST(EntryPoints, PackedAreTheSame) {
    JpegDecoder decoder;
    for (int trial = 0; trial < 20; ++trial) {
        const Bytes jpeg = make_jpeg(plan_of(trial));
        const EntryPoints points = learned(decoder, jpeg).known;
        EntryPointSlot found;
        decoder.find_points(jpeg, found);
        EXPECT_EQ(found.known, points);
        std::vector<std::byte> packed;
        pack_points(points, packed);
        EXPECT_LT(packed.size(), 8 * points.points.size());
        ASSERT_EQ(unpack_points(packed), points);
        for (std::size_t size = 0; size < packed.size(); ++size) {
            ASSERT_FALSE(unpack_points(std::span(packed).first(size)).has_value());
        }
        packed.push_back(std::byte{0});
        EXPECT_FALSE(unpack_points(packed).has_value());
    }
}

TEST(EntryPoints, OfRandomBytesAreThoseThatPackToThem) {
    Rng rng({.seed = 24});
    int valid = 0;
    for (int trial = 0; trial < 20'000 / kSlow; ++trial) {
        std::vector<std::byte> bytes(2 + rng.below(30));
        for (std::byte& byte : bytes) {
            byte = static_cast<std::byte>(rng.below(trial % 2 == 0 ? 256 : 6));
        }
        if (const std::optional<EntryPoints> points = unpack_points(bytes)) {
            ++valid;
            std::vector<std::byte> packed;
            pack_points(*points, packed);
            ASSERT_EQ(unpack_points(packed), points);
        }
    }
    EXPECT_GT(valid, 0);
}

// No points are kept of files that libjpeg decodes.
TEST(EntryPoints, DamagedFilesGiveLibjpegsPixels) {
    Rng rng({.seed = 23});
    JpegDecoder decoder;
    int pictures = 0;
    for (int trial = 0; trial < 1500 / kSlow; ++trial) {
        JpegPlan plan = plan_of(trial);
        plan.restart_interval = trial % 2 == 0 ? static_cast<unsigned>(1 + trial % 11) : 0;
        const Bytes jpeg = mutated(make_jpeg(plan), rng);
        Image whole;
        try {
            whole = whole_image(decoder, jpeg);
        } catch (const DataError&) {
            continue;
        }
        ++pictures;
        EntryPointSlot points;
        for (int i = 0; i < 3; ++i) {
            expect_box(decoder, jpeg, whole, random_box(rng, whole.height(), whole.width()), &points);
        }
    }
    EXPECT_GT(pictures, 300 / kSlow);
}

TEST(EntryPoints, RestartMarkersAreSuchPoints) {
    Rng rng({.seed = 24});
    JpegDecoder decoder;
    for (const unsigned interval : {1U, 2U, 5U, 7U, 17U, 34U, 40U, 1000U}) {
        JpegPlan plan = plan_of(static_cast<int>(interval));
        plan.restart_interval = interval;
        const Bytes jpeg = make_jpeg(plan);
        const Image whole = whole_image(decoder, jpeg);
        EntryPointSlot points;
        for (int i = 0; i < 30; ++i) {
            expect_box(decoder, jpeg, whole, random_box(rng, whole.height(), whole.width()), &points);
        }
        EXPECT_TRUE(points.known.points.empty());
    }
}

}  // namespace
}  // namespace stoker::testing
