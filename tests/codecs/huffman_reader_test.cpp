// Our own way through a JPEG (Huffman decoder and pixel stage) against libjpeg's alone: the same pixels from every
// file, sound or damaged, and the same verdict where there are none.
#include <gtest/gtest.h>

#include <optional>

#include "codecs/fixtures.h"
#include "codecs/jpeg_files.h"
#include "stoker/codecs/encode.h"
#include "stoker/codecs/huffman_writer.h"
#include "stoker/codecs/jpeg.h"

namespace stoker::testing {
namespace {

std::optional<Image> decoded(JpegDecoder& decoder, const Bytes& jpeg, bool reference) {
    Image image;
    ImageSink sink(image);
    try {
        reference ? decoder.decode_reference(jpeg, sink) : decoder.decode(jpeg, sink);
    } catch (const DataError&) {
        return std::nullopt;
    }
    return image;
}

// Whether both ways agree; counts what they agree on.
struct Verdicts {
    int pictures = 0;
    int refusals = 0;

    void compare(JpegDecoder& decoder, const Bytes& jpeg) {
        const auto expected = decoded(decoder, jpeg, true);
        const auto got = decoded(decoder, jpeg, false);
        ASSERT_EQ(expected.has_value(), got.has_value());
        if (!expected) {
            ++refusals;
            return;
        }
        ++pictures;
        ASSERT_TRUE(same_pixels(expected->view(), got->view()));
    }
};

TEST(HuffmanReader, SoundFilesGiveLibjpegsPixels) {
    JpegDecoder decoder;
    Verdicts verdicts;
    for (int quality = 1; quality <= 100; quality += 3) {
        for (const int restart : {0, 1, 5}) {
            JpegPlan plan;
            plan.height = 30 + quality;
            plan.width = 131 - quality;
            plan.quality = quality;
            plan.restart_interval = static_cast<unsigned>(restart);
            plan.optimize = quality % 2 == 0;
            verdicts.compare(decoder, make_jpeg(plan));
        }
    }
    EXPECT_EQ(verdicts.refusals, 0);
}

TEST(HuffmanReader, DamagedFilesGiveLibjpegsPixelsOrVerdict) {
    Rng rng({.seed = 11});
    JpegDecoder decoder;
    Verdicts verdicts;
    for (int trial = 0; trial < 6000 / kSlow; ++trial) {
        JpegPlan plan;
        plan.quality = 30 + 10 * (trial % 7);
        plan.restart_interval = trial % 3 == 0 ? 2 : 0;
        verdicts.compare(decoder, mutated(make_jpeg(plan), rng));
    }
    EXPECT_GT(verdicts.pictures, 500 / kSlow);
    EXPECT_GT(verdicts.refusals, 500 / kSlow);
}

TEST(HuffmanReader, EveryTruncationIsRefused) {
    JpegDecoder decoder;
    const Bytes whole = make_jpeg({});
    for (std::size_t size = 0; size < whole.size(); ++size) {
        ASSERT_FALSE(decoded(decoder, Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)), false))
            << size;
    }
    EXPECT_TRUE(decoded(decoder, whole, false));
}

// A DC table with a symbol that no step has, although no block uses it: libjpeg refuses such tables.
TEST(HuffmanReader, ABogusTableIsRefused) {
    JpegDecoder decoder;
    Bytes jpeg = make_jpeg({});
    const std::size_t table = find_marker(jpeg, 0xc4);
    ASSERT_EQ(jpeg[table + 4], std::byte{0});  // the first is a DC table
    jpeg[table + 5 + 16 + 11] = std::byte{0x39};
    EXPECT_FALSE(decoded(decoder, jpeg, true));
    EXPECT_FALSE(decoded(decoder, jpeg, false));
}

}  // namespace
}  // namespace stoker::testing
