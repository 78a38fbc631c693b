// Restored JPEGs, images that must stay JPEGs and their reasons, and handmade files that libjpeg does not write: values
// without a code, scans with a different end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codecs/jpeg/jpeg_files.h"
#include "stoker/codecs/dct/dct.h"
#include "stoker/codecs/dct/dct_record.h"

namespace stoker {
namespace {

using namespace stoker::testing;
using ::testing::HasSubstr;

Image pixels_of(const Bytes& record) {
    Image image;
    ImageSink sink(image);
    DctDecoder().decode(record, sink);
    return image;
}

// A grey JPEG of one block whose tables know the DC difference 0, AC values of `bits` bits and the end of a block.
// Its scan is `scan`.
Bytes one_block(int bits, std::initializer_list<int> scan) {
    Bytes jpeg = bytes_of({0xFF, 0xD8, 0xFF, 0xDB, 0, 67, 0});
    jpeg.resize(jpeg.size() + 64, std::byte{1});
    return joined({jpeg, bytes_of({0xFF, 0xC0, 0, 11, 8, 0, 8, 0, 8, 1, 1, 0x11, 0}),
                   bytes_of({0xFF, 0xC4, 0, 20, 0x00, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}),
                   bytes_of({0xFF, 0xC4, 0, 21, 0x10, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, bits, 0}),
                   bytes_of({0xFF, 0xDA, 0, 8, 1, 1, 0, 0, 63, 0}), bytes_of(scan), bytes_of({0xFF, 0xD9})});
}

TEST(DctRestore, NothingOfABaselineFileIsLost) {
    const JpegPlan plan = {.width = 50, .height = 41, .orientation = 3, .comment = true, .trailing = 33};
    const Bytes jpeg = make_jpeg(plan);
    for (const DctKind kind : kDctKinds) {
        const DctRecord record = encode_dct(jpeg, kind);
        EXPECT_TRUE(record.exact_file);
        EXPECT_EQ(restore_jpeg(record.bytes), jpeg);
    }
}

TEST(DctRestore, DamagedHeadsAreRefused) {
    const Bytes jpeg = make_jpeg({.comment = true});
    const Bytes record = encode_dct(jpeg, DctKind::ans).bytes;
    DctHeader header;
    read_dct_header(record, header);
    const Bytes packed(header.head.begin(), header.head.end());
    const Bytes head = unpack_head(header);
    EXPECT_LT(packed.size(), head.size() / 4);
    EXPECT_TRUE(std::equal(head.begin(), head.end(), jpeg.begin()));
    EXPECT_EQ(pack_head(header.frame, head), packed);
    const auto error = [&](const Bytes& bytes) {
        header.head = bytes;
        return error_of([&] { unpack_head(header); });
    };
    EXPECT_THAT(error({}), HasSubstr("1 MiB"));
    EXPECT_THAT(error(head), HasSubstr("1 MiB"));
    EXPECT_THAT(error(pack_head(header.frame, Bytes(kMaxPackedHead + 1))), HasSubstr("1 MiB"));
    for (std::size_t size = 0; size < packed.size(); ++size) {
        EXPECT_NE(error(Bytes(packed.begin(), packed.begin() + static_cast<std::ptrdiff_t>(size))), "no DataError");
    }
}

TEST(DctRestore, RewrittenFilesKeepTheirMarkers) {
    const Bytes jpeg = make_jpeg({.separate_scans = true, .orientation = 6, .comment = true});
    const DctRecord record = encode_dct(jpeg);
    EXPECT_FALSE(record.exact_file);
    const Bytes restored = restore_jpeg(record.bytes);
    EXPECT_NE(restored, jpeg);
    EXPECT_EQ(Decoder().info(restored).orientation, 6);
    const Bytes comment = bytes_of("made by a test");
    EXPECT_NE(std::search(restored.begin(), restored.end(), comment.begin(), comment.end()), restored.end());
    const DctRecord again = encode_dct(restored);  // a baseline file now
    EXPECT_TRUE(again.exact_file);
    EXPECT_TRUE(same_pixels(pixels_of(again.bytes).view(), libjpeg_pixels(jpeg).view()));
}

TEST(DctRestore, TheScanMayBeFollowedByAnything) {
    Bytes jpeg = make_jpeg({.seed = 4});
    jpeg.erase(jpeg.end() - 2, jpeg.end());  // replace the end marker with another segment and garbage
    jpeg = joined({jpeg, bytes_of({0xFF, 0xFE, 0, 5, 'a', 'b', 'c', 0xFF, 0xD9, 1, 2, 3, 0xFF, 0xFF, 0xDA, 0})});
    const DctRecord record = encode_dct(jpeg);
    EXPECT_EQ(record.reason, "");
    EXPECT_TRUE(record.exact_file);
    EXPECT_EQ(restore_jpeg(record.bytes), jpeg);
}

TEST(DctRestore, ImagesThatStayJpegsHaveAReason) {
    EXPECT_THAT(encode_dct(make_jpeg({.colors = Colors::cmyk, .h = {1, 1, 1}, .v = {1, 1, 1}})).reason,
                HasSubstr("colour space"));
    Bytes odd = make_jpeg({.h = {2, 1, 1}, .v = {1, 1, 1}});
    odd[find_marker(odd, 0xC0) + 11] = std::byte{0x31};  // luma 3 x 1 and chroma 2 x 1: a ratio of 1.5
    odd[find_marker(odd, 0xC0) + 14] = std::byte{0x21};
    EXPECT_THAT(encode_dct(odd).reason, HasSubstr("sampling factors"));
    const DctRecord blurred = encode_dct(make_jpeg({.quality = 30, .progressive = true, .dc_only = true}));
    EXPECT_THAT(blurred.reason, HasSubstr("more than its coefficients"));  // libjpeg estimates the missing coefficients
    EXPECT_TRUE(blurred.bytes.empty());
    EXPECT_FALSE(blurred.exact_file);
}

TEST(DctRestore, DamagedJpegsThrow) {
    const Bytes jpeg = make_jpeg({});
    EXPECT_THROW(encode_dct({}), DataError);
    EXPECT_THROW(encode_dct(bytes_of("not a JPEG at all")), DataError);
    EXPECT_THROW(encode_dct(std::span(jpeg).first(jpeg.size() / 2)), DataError);
    Bytes deep = jpeg;
    deep[find_marker(deep, 0xC0) + 4] = std::byte{12};  // bits per sample, which this libjpeg does not support
    EXPECT_THROW(encode_dct(deep), DataError);
}

// Sequential files with values of 11 bits or more: their tables have codes for them, the standard tables do not.
TEST(DctRestore, ValuesBeyondTheStandardTables) {
    // DC 0: "0"; an AC value of 12 bits, 2049: "0" "100000000001"; end of block: "10"; padded with ones.
    const Bytes exact = one_block(12, {0b00100000, 0b00000110});
    const DctRecord record = encode_dct(exact);
    ASSERT_EQ(record.reason, "");
    EXPECT_TRUE(record.exact_file);
    EXPECT_EQ(restore_jpeg(record.bytes), exact);
    EXPECT_TRUE(same_pixels(pixels_of(record.bytes).view(), libjpeg_pixels(exact).view()));

    // The same with a scan that has one more byte than ours: it would have to be rewritten, which is impossible.
    const Bytes padded = one_block(12, {0b00100000, 0b00000110, 0x55});
    const DctRecord other = encode_dct(padded);
    EXPECT_TRUE(other.exact_file) << "the bytes behind the scan are kept unchanged";
    EXPECT_EQ(restore_jpeg(other.bytes), padded);
    const Bytes zeros = one_block(11, {0b00100000, 0b00001100});  // 1025, padded with zeros
    const DctRecord refused = encode_dct(zeros);
    EXPECT_THAT(refused.reason, HasSubstr("a baseline JPEG of one scan cannot store"));
    EXPECT_TRUE(refused.bytes.empty());
    const Bytes small =
        one_block(10, {0b00100000, 0b00011000});  // 513, padded with zeros: the standard tables have a code
    const DctRecord rewritten = encode_dct(small);
    ASSERT_EQ(rewritten.reason, "");
    EXPECT_FALSE(rewritten.exact_file);
    EXPECT_TRUE(same_pixels(libjpeg_pixels(restore_jpeg(rewritten.bytes)).view(), libjpeg_pixels(small).view()));
}

// Four times the blocks that an interleaved scan may have: a single scan cannot store them.
TEST(DctRestore, FactorsTooLargeForOneScan) {
    const std::array<std::array<int, 3>, 2> factors[] = {{{{4, 1, 1}, {4, 1, 1}}}, {{{2, 2, 2}, {2, 2, 2}}}};
    for (const auto& [h, v] : factors) {
        for (const bool progressive : {false, true}) {
            const Bytes jpeg = make_jpeg({.h = h, .v = v, .progressive = progressive, .separate_scans = true});
            const DctRecord record = encode_dct(jpeg);
            if (record.reason.empty()) {  // from separate scans
                const Image expected = libjpeg_pixels(jpeg);
                EXPECT_TRUE(same_pixels(pixels_of(record.bytes).view(), expected.view()));
                EXPECT_TRUE(same_pixels(libjpeg_pixels(restore_jpeg(record.bytes)).view(), expected.view()));
            } else {
                EXPECT_THAT(record.reason, HasSubstr("a baseline JPEG of one scan cannot store"));
            }
        }
    }
}

// Damaged JPEGs that libjpeg still decodes: a record is correct, or there is none.
TEST(DctRestore, RecordsOfDamagedFilesAreCorrectOrAbsent) {
    Rng rng({.seed = 21});
    std::vector<Bytes> files;
    for (const bool progressive : {false, true}) {
        files.push_back(make_jpeg({.progressive = progressive}));
        files.push_back(make_jpeg({.h = {1, 1, 1}, .v = {1, 1, 1}, .progressive = progressive, .restart_interval = 5}));
    }
    files.push_back(make_jpeg({.colors = Colors::grey}));
    int records = 0;
    for (int i = 0; i < 3000 / kSlow; ++i) {
        const Bytes jpeg = mutated(files[rng.below(static_cast<std::uint32_t>(files.size()))], rng);
        try {
            const ImageInfo info = Decoder().info(jpeg);
            if (info.height > 2000 || info.width > 2000) {
                continue;
            }
            const DctRecord record = encode_dct(jpeg, kDctKinds[rng.below(3)]);
            if (!record.reason.empty()) {
                continue;
            }
            ++records;
            const Image expected = libjpeg_pixels(jpeg);
            ASSERT_TRUE(same_pixels(pixels_of(record.bytes).view(), expected.view()));
            const Bytes restored = restore_jpeg(record.bytes);
            ASSERT_TRUE(record.exact_file ? restored == jpeg
                                          : same_pixels(libjpeg_pixels(restored).view(), expected.view()));
        } catch (const DataError&) {
            continue;
        }
    }
    EXPECT_GT(records, 300 / kSlow);
}

TEST(DctRestore, RecordsThatDoNotFitTheirHeaderAreRefused) {
    const Bytes record = encode_dct(make_jpeg({.quality = 98, .content = Content::noise})).bytes;
    DctHeader header;
    const auto with = [&](const Bytes& head) {
        read_dct_header(record, header);
        header.head = head;
        return write_dct_record(header);
    };
    const auto head_of = [](const Bytes& jpeg) {
        const std::size_t scan = find_marker(jpeg, 0xDA);
        return Bytes(jpeg.begin(), jpeg.begin() + static_cast<std::ptrdiff_t>(scan + 14));
    };
    const auto error = [](const Bytes& bytes) { return error_of([&] { restore_jpeg(bytes); }); };
    EXPECT_THAT(error(with({})), HasSubstr("truncated"));
    EXPECT_THAT(error(with(bytes_of("no JPEG header"))), HasSubstr("Not a JPEG"));
    Bytes grey = make_jpeg({.colors = Colors::grey});
    grey.resize(find_marker(grey, 0xDA) + 10);
    EXPECT_THAT(error(with(grey)), HasSubstr("other components"));
    EXPECT_THAT(error(with(head_of(make_jpeg({.progressive = true})))), HasSubstr("not baseline"));
    const Bytes flat = head_of(make_jpeg({.optimize = true, .content = Content::flat}));
    EXPECT_THAT(error(with(flat)), HasSubstr("Huffman tables"));
    const Image before = pixels_of(record);
    EXPECT_TRUE(same_pixels(pixels_of(with(flat)).view(), before.view())) << "pixels need no header";
}

}  // namespace
}  // namespace stoker
