// JpegDecoder::decode (HuffmanReader and BlockDecoder) compared with decode_reference (libjpeg): the same pixels for
// every file, valid or damaged, or both throw.
#include <gtest/gtest.h>

#include <optional>

#include "codecs/fixtures.h"
#include "codecs/jpeg/jpeg_files.h"
#include "stoker/codecs/encode.h"
#include "stoker/codecs/jpeg/huffman_writer.h"
#include "stoker/codecs/jpeg/jpeg.h"
#include "stoker/codecs/jpeg/jpeg_rewrite.h"

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

// True if both decoders agree. Counts decoded and refused files.
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

TEST(HuffmanReader, ValidFilesGiveLibjpegsPixels) {
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

TEST(HuffmanReader, DamagedFilesGiveLibjpegsPixelsOrError) {
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

// If a damaged file decodes as a whole, each box decodes to that part of the same picture.
TEST(HuffmanReader, BoxesOfDamagedFilesArePartsOfTheWhole) {
    Rng rng({.seed = 12});
    JpegDecoder decoder;
    int compared = 0;
    for (int trial = 0; trial < 6000 / kSlow; ++trial) {
        JpegPlan plan;
        plan.content = trial % 2 == 0 ? Content::photo : Content::flat;
        plan.optimize = trial % 4 < 2;
        plan.colors = trial % 3 == 0 ? Colors::grey : Colors::ycc;
        Bytes jpeg = make_jpeg(plan);
        if (trial % 5 == 0) {  // the scan ends early, but the file does not
            const std::size_t scan = find_marker(jpeg, 0xda) + 10;
            jpeg.resize(scan + rng.below(static_cast<std::uint32_t>(jpeg.size() - scan)));
            jpeg.insert(jpeg.end(), {std::byte{0xff}, std::byte{0xd9}});
        } else {
            jpeg = mutated(jpeg, rng);
        }
        const auto whole = decoded(decoder, jpeg, true);
        if (!whole) {
            continue;
        }
        const Box box = random_box(rng, whole->height(), whole->width());
        Image part;
        BoxSink sink(box, part);
        decoder.decode(jpeg, sink);
        ++compared;
        ASSERT_TRUE(same_pixels(part.view(), whole->view().crop(box))) << trial;
    }
    EXPECT_GT(compared, 1000 / kSlow);
}

// Unrealistic coefficients in the first row only: libjpeg-turbo's shortcut wraps there instead of saturating.
TEST(HuffmanReader, HugeCoefficientsInTheFirstRowWrapAsLibjpegs) {
    JpegDecoder decoder;
    for (const int value : {30, 40, 100, -41, -700, 1000}) {
        for (std::size_t place = 0; place < 8; ++place) {
            JpegPlan plan;
            plan.width = plan.height = 8;
            plan.colors = Colors::grey;
            plan.quality = 1;
            const Bytes jpeg = make_jpeg(plan);
            JpegReader reader;
            const JpegReader::Session session(reader, jpeg);
            JpegFrame frame;
            ASSERT_TRUE(read_frame(reader.codec(), frame));
            JpegBlocks blocks{.frame = frame, .blocks = {}};
            ASSERT_TRUE(read_quant_tables(reader.codec(), blocks.frame));
            blocks.frame.component[0].quant.fill(255);
            blocks.blocks[0].assign(kBlockSize, 0);
            blocks.blocks[0][place] = static_cast<std::int16_t>(value);
            const std::size_t head = jpeg.size() - reader.rest().size();
            Verdicts verdicts;
            verdicts.compare(decoder, rewrite_jpeg(reader.codec(), blocks, std::span(jpeg).first(head)));
            EXPECT_EQ(verdicts.pictures, 1);
        }
    }
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

// A code of ones only that no block uses: libjpeg refuses such tables.
TEST(HuffmanReader, ACodeOfOnesOnlyIsRefused) {
    JpegDecoder decoder;
    Bytes jpeg = make_jpeg({});
    const std::size_t table = find_marker(jpeg, 0xc4);  // the DC table of luma, whose 12 codes have 2 to 9 bits
    const std::size_t counts = table + 5;
    ASSERT_EQ(jpeg[counts + 8], std::byte{1});
    jpeg[counts + 8] = std::byte{2};
    jpeg.insert(jpeg.begin() + static_cast<std::ptrdiff_t>(counts + 16 + 12), std::byte{0});
    jpeg[table + 3] = static_cast<std::byte>(std::to_integer<int>(jpeg[table + 3]) + 1);
    EXPECT_FALSE(decoded(decoder, jpeg, true));
    EXPECT_FALSE(decoded(decoder, jpeg, false));
}

// A DC table with an invalid symbol that no block uses: libjpeg refuses such tables.
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
