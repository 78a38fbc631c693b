// The region that the sink requests, and the three ways in which a decoder may deliver it. The decoder of the test
// delivers exactly the requested bytes of an image.
#include "stoker/pipeline/transforms/region_sink.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <numeric>

#include "stoker/base/rng.h"
#include "stoker/ops/resize_normalize.h"

namespace stoker::region_sink_test {
namespace {

// Nothing is streamed (stream_test.cpp).
constexpr auto store_rows = [](const Geometry&, const Box&, int) { return false; };
ResizeStream stream;

int between(Rng& rng, int low, int high) {
    return low + static_cast<int>(rng.below(static_cast<std::uint32_t>(high - low + 1)));
}

// An image without sharp edges, so that its shrunk form is similar.
Image slopes(int height, int width) {
    Image image(height, width, 3);
    for (int y = 0; y < height; ++y) {
        for (int x = 0; x < width; ++x) {
            std::uint8_t* pixel = image.view().row(y) + x * 3;
            pixel[0] = static_cast<std::uint8_t>(255 * y / height);
            pixel[1] = static_cast<std::uint8_t>(255 * x / width);
            pixel[2] = static_cast<std::uint8_t>(255 - (127 * y / height + 127 * x / width));
        }
    }
    return image;
}

// Means of shrink x shrink pixels, fewer at the ends.
Image averaged(ConstImageView from, int shrink) {
    Image small((from.height + shrink - 1) / shrink, (from.width + shrink - 1) / shrink, from.channels);
    for (int y = 0; y < small.height(); ++y) {
        for (int x = 0; x < small.width() * from.channels; ++x) {
            int sum = 0;
            int count = 0;
            for (int dy = y * shrink; dy < std::min((y + 1) * shrink, from.height); ++dy) {
                const int first = x / from.channels * shrink;
                for (int dx = first; dx < std::min(first + shrink, from.width); ++dx, ++count) {
                    sum += from.row(dy)[dx * from.channels + x % from.channels];
                }
            }
            small.view().row(y)[x] = static_cast<std::uint8_t>(sum / count);
        }
    }
    return small;
}

enum class Answer { region, smaller, all, unasked };

void give(ConstImageView image, RowSink& sink) {
    sink.start(image.height, image.width, image.channels);
    for (int y = 0; y < image.height; ++y) {
        std::memcpy(sink.row(y), image.row(y), image.row_bytes());
    }
    sink.finish();
}

Region decode(const Image& image, RowSink& sink, Answer answer) {
    if (answer == Answer::unasked) {
        give(image.view(), sink);
        return {};
    }
    const Region region = sink.region(image.height(), image.width());
    const Box& box = region.box;
    EXPECT_TRUE(box.top >= 0 && box.left >= 0 && box.height > 0 && box.width > 0 &&
                box.top + box.height <= image.height() && box.left + box.width <= image.width());
    if (answer == Answer::all) {
        give(image.view(), sink);
    } else if (answer == Answer::smaller) {
        give(averaged(image.view(), region.shrink).view().crop(shrunk_box(box, region.shrink)), sink);
    } else {
        give(image.view().crop(box), sink);
    }
    return region;
}

template <typename Sink>
std::vector<std::uint8_t> finished(const Sink& sink, const Image& decoded) {
    const Geometry& geometry = sink.geometry();
    const Box reads = geometry.reads();
    const Box window = sink.window();
    const auto [height, width] = geometry.size();
    std::vector<std::uint8_t> out(static_cast<std::size_t>(height * width) * 3);
    ResizeScratch scratch;
    resize_normalize(decoded.view().crop({reads.top - window.top, reads.left - window.left, reads.height, reads.width}),
                     {reads.top - geometry.box().top, reads.left - geometry.box().left, reads.height, reads.width},
                     geometry.resizing(), {},
                     {.data = reinterpret_cast<std::byte*>(out.data()), .dtype = DType::uint8, .layout = Layout::hwc},
                     scratch);
    return out;
}

Geometry random_geometry(ImageSize image, Rng& rng) {
    Geometry geometry(image);
    const auto cut = [&] {
        const auto [height, width] = geometry.size();
        Box box{0, 0, between(rng, 1, height), between(rng, 1, width)};
        box.top = between(rng, 0, height - box.height);
        box.left = between(rng, 0, width - box.width);
        EXPECT_TRUE(geometry.crop(box));
    };
    if (rng.chance(0.6f)) {
        cut();
    }
    EXPECT_TRUE(geometry.resize({between(rng, 1, 30), between(rng, 1, 30)}));
    if (rng.chance(0.6f)) {
        cut();
    }
    if (rng.chance(0.5f)) {
        geometry.flip();
    }
    return geometry;
}

TEST(RegionSink, ExactlyWhatIsReadAndTheSamePixelsHoweverTheDecoderAnswers) {
    Rng rng({.seed = 3});
    for (int trial = 0; trial < 300; ++trial) {
        Image image(between(rng, 1, 120), between(rng, 1, 120), 3);
        std::generate_n(image.view().data, image.bytes(), [&] { return static_cast<std::uint8_t>(rng.next()); });
        const Geometry geometry = random_geometry({image.height(), image.width()}, rng);
        const auto fold = [&](ImageSize) { return geometry; };
        std::vector<std::uint8_t> expected;
        for (const Answer answer : {Answer::unasked, Answer::region, Answer::all}) {
            Image decoded;
            RegionSink sink(fold, DecodeMode::exact, decoded, store_rows, stream);
            const Region region = decode(image, sink, answer);
            if (answer == Answer::unasked) {
                expected = finished(sink, decoded);
            } else {
                EXPECT_EQ(region.box, geometry.reads());
                EXPECT_EQ(region.shrink, 1);
                ASSERT_TRUE(finished(sink, decoded) == expected) << "trial " << trial;
            }
        }
    }
}

TEST(RegionSink, FastDecodingAsksForTheLargestShrinkThatLeavesEnough) {
    const struct {
        int height, width, shrink;
    } cases[] = {{16, 16, 1}, {31, 90, 1},   {32, 32, 2},   {32, 31, 1},  {63, 64, 2},
                 {64, 64, 4}, {127, 200, 4}, {128, 128, 8}, {900, 900, 8}};
    for (const auto& [height, width, shrink] : cases) {
        Geometry geometry({1000, 1000});
        ASSERT_TRUE(geometry.crop({7, 9, height, width}));
        ASSERT_TRUE(geometry.resize({16, 16}));
        EXPECT_EQ(geometry.shrink(), shrink) << height << " x " << width;
        const auto fold = [&](ImageSize) { return geometry; };
        Image decoded;
        RegionSink sink(fold, DecodeMode::fast, decoded, store_rows, stream);
        EXPECT_EQ(sink.region(1000, 1000).shrink, shrink);
        RegionSink exact(fold, DecodeMode::exact, decoded, store_rows, stream);
        EXPECT_EQ(exact.region(1000, 1000).shrink, 1);
    }
    EXPECT_EQ(Geometry({500, 500}).shrink(), 1) << "an image without a resize keeps its size";
}

// The reference of a decoder that shrinks: the whole image is shrunk first, then the same ops run.
std::vector<std::uint8_t> of_shrunken_image(const Image& image, const Geometry& geometry, int shrink) {
    Image decoded;
    const auto fold = [&](ImageSize) { return geometry.shrunk(shrink); };
    RegionSink sink(fold, DecodeMode::exact, decoded, store_rows, stream);
    decode(averaged(image.view(), shrink), sink, Answer::all);
    return finished(sink, decoded);
}

// A decoder that cannot shrink gives the exact pixels; one that can gives nearly the same.
TEST(RegionSink, FastDecodingIsExactOrNearlySo) {
    Rng rng({.seed = 4});
    int shrunk = 0;
    for (int trial = 0; trial < 300; ++trial) {
        const Image image = slopes(between(rng, 60, 300), between(rng, 60, 300));
        const Geometry geometry = random_geometry({image.height(), image.width()}, rng);
        const auto fold = [&](ImageSize) { return geometry; };
        Image decoded;
        RegionSink plain(fold, DecodeMode::exact, decoded, store_rows, stream);
        decode(image, plain, Answer::all);
        const auto expected = finished(plain, decoded);
        for (const Answer answer : {Answer::region, Answer::all, Answer::unasked}) {
            RegionSink sink(fold, DecodeMode::fast, decoded, store_rows, stream);
            decode(image, sink, answer);
            ASSERT_TRUE(finished(sink, decoded) == expected) << "trial " << trial;
        }
        RegionSink sink(fold, DecodeMode::fast, decoded, store_rows, stream);
        const Region region = decode(image, sink, Answer::smaller);
        shrunk += region.shrink > 1 ? 1 : 0;
        const auto got = finished(sink, decoded);
        ASSERT_TRUE(got == of_shrunken_image(image, geometry, region.shrink)) << "trial " << trial;
        int furthest = 0;
        for (std::size_t i = 0; i < got.size(); ++i) {
            furthest = std::max(furthest, std::abs(got[i] - expected[i]));
        }
        // A shrunken box begins and ends less than one of its pixels outside, and the image climbs 255 levels. kLevels
        // is for rounding, and for the shorter triangles at the edges.
        constexpr int kLevels = 3;
        const int away = 255 * (region.shrink - 1) / std::min(image.height(), image.width());
        ASSERT_LE(furthest, away + kLevels) << "trial " << trial << ", shrunk by " << region.shrink;
    }
    EXPECT_GT(shrunk, 50);
}

// After a decoder finds damage, another decoder that cannot shrink starts again.
TEST(RegionSink, AStartAnewForgetsTheOneBefore) {
    Rng rng({.seed = 5});
    int shrunk = 0;
    for (int trial = 0; trial < 200; ++trial) {
        const Image image = slopes(between(rng, 60, 300), between(rng, 60, 300));
        const Geometry geometry = random_geometry({image.height(), image.width()}, rng);
        const auto fold = [&](ImageSize) { return geometry; };
        Image decoded;
        RegionSink plain(fold, DecodeMode::exact, decoded, store_rows, stream);
        decode(image, plain, Answer::all);
        const auto expected = finished(plain, decoded);
        for (const Answer second : {Answer::all, Answer::region, Answer::smaller}) {
            RegionSink sink(fold, DecodeMode::fast, decoded, store_rows, stream);
            const Region region = sink.region(image.height(), image.width());
            shrunk += region.shrink > 1 ? 1 : 0;
            const Box smaller = shrunk_box(region.box, region.shrink);
            sink.start(smaller.height, smaller.width, 3);
            std::memset(sink.row(0), 7, static_cast<std::size_t>(smaller.width) * 3);
            if (second == Answer::smaller) {
                give(averaged(image.view(), region.shrink).view().crop(smaller), sink);
                ASSERT_TRUE(finished(sink, decoded) == of_shrunken_image(image, geometry, region.shrink)) << trial;
            } else {
                give(second == Answer::all ? image.view() : image.view().crop(region.box), sink);
                ASSERT_TRUE(finished(sink, decoded) == expected) << "trial " << trial;
            }
        }
    }
    EXPECT_GT(shrunk, 100);
}

TEST(RegionSink, RefusesRowsOfAnotherSize) {
    const auto fold = [](ImageSize size) {
        Geometry geometry(size);
        geometry.crop({5, 5, 10, 10});
        return geometry;
    };
    Image decoded;
    RegionSink sink(fold, DecodeMode::exact, decoded, store_rows, stream);
    sink.region(40, 40);
    EXPECT_THROW(sink.start(10, 11, 3), InternalError);
}

}  // namespace
}  // namespace stoker::region_sink_test
