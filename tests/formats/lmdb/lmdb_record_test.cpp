// Values of each kind: encoded images, Datums built here field by field, pickles as Python writes them.
#include "stoker/formats/lmdb/lmdb_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "formats/pickle/pickle_support.h"
#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/formats/image_kind.h"

namespace stoker {
namespace {

using namespace std::string_literals;
using ::testing::HasSubstr;

std::string text_of(const Sample& sample) {
    return {reinterpret_cast<const char*>(sample.bytes.data()), sample.bytes.size()};
}

std::string error_of(const std::string& value) {
    LmdbRecord record;
    Sample sample;
    try {
        record.read(as_bytes(value), sample);
    } catch (const Error& error) {
        return error.what();
    }
    return "no error";
}

const std::string kJpeg = "\xff\xd8\xff\xe0 and so on";

TEST(LmdbRecord, EncodedImages) {
    LmdbRecord record;
    Sample sample;
    const std::string images[] = {kJpeg,
                                  "\x89PNG\r\n\x1a\n",
                                  "RIFF\1\0\0\0WEBPVP8 "s,
                                  "P6\n1 1\n255\nabc",
                                  "P5#\n",
                                  "P1 1 1\n0",
                                  "P4\n1 1\n0",
                                  "BM\0\0\0\0\0\0\0\0\0\0\0\0\x28\0\0\0\1"s,
                                  "\xdc"
                                  "DCT\1\0"s};
    for (const std::string& image : images) {
        sample.height = 3;
        record.read(as_bytes(image), sample);
        EXPECT_TRUE(sample.encoded);
        EXPECT_EQ(sample.height, 0);
        EXPECT_EQ(sample.label, -1);
        EXPECT_EQ(reinterpret_cast<const char*>(sample.bytes.data()), image.data());
        EXPECT_EQ(sample.bytes.size(), image.size());
        for (std::size_t size = 0; size < 3; ++size) {
            EXPECT_FALSE(is_encoded_image(as_bytes(image).first(size)));
        }
    }
    for (const std::string& other :
         {"BMp is not one, though it begins so"s, "P7\n"s, "GIF88a"s, "RIFF1234WAVE"s, ""s}) {
        EXPECT_FALSE(is_encoded_image(as_bytes(other)));
    }
}

std::string field(int number, const std::string& bytes) {
    return static_cast<char>(number << 3 | 2) + std::string(1, static_cast<char>(bytes.size())) + bytes;
}

std::string field(int number, int value) {
    return {static_cast<char>(number << 3), static_cast<char>(value)};
}

TEST(LmdbRecord, Datum) {
    LmdbRecord record;
    Sample sample;
    std::string value;  // samples may point into it
    const auto read = [&](const std::string& bytes) {
        value = bytes;
        record.read(as_bytes(value), sample);
    };
    const std::string sides = field(1, 3) + field(2, 1) + field(3, 2);
    read(sides + field(4, "rRgGbB"s) + field(5, 9));
    EXPECT_FALSE(sample.encoded);
    EXPECT_EQ(text_of(sample), "rgbRGB");
    EXPECT_EQ(std::vector({sample.height, sample.width, sample.channels}), std::vector({1, 2, 3}));
    EXPECT_EQ(sample.label, 9);

    read(field(4, kJpeg) + field(5, 7) + field(7, 1));
    EXPECT_TRUE(sample.encoded);
    EXPECT_EQ(text_of(sample), kJpeg);
    EXPECT_EQ(sample.label, 7);

    // Unknown fields of every wire type; a field that comes twice; a label of -1 in ten bytes; no label.
    const std::string unknown = "\x40\x81\1"s +
                                "\x49"
                                "12345678"s +
                                field(10, "x"s) +
                                "\x5d"
                                "1234"s;
    const std::string minus = "\x28\xff\xff\xff\xff\xff\xff\xff\xff\xff\1"s;
    read(field(1, 2) + sides + unknown + field(4, "rRgGbB"s) + minus);
    EXPECT_EQ(text_of(sample), "rgbRGB");
    EXPECT_EQ(sample.label, -1);
    read(field(1, 1) + field(2, 2) + field(3, 2) + field(4, "abcd"s));
    EXPECT_EQ(text_of(sample), "abcd");
    EXPECT_EQ(sample.label, -1);
}

TEST(LmdbRecord, DamagedDatum) {
    const std::string sides = field(1, 3) + field(2, 1) + field(3, 2);
    EXPECT_THAT(error_of(sides + field(4, "rRgGb"s)), HasSubstr("6 bytes of pixels for 3 x 1 x 2, got 5"));
    EXPECT_THAT(error_of(sides + "\x22\x7fshort"), HasSubstr("127 more bytes, got 5"));
    EXPECT_THAT(error_of(sides + "\x32\4"
                                 "abcd"),
                HasSubstr("float_data"));
    EXPECT_THAT(error_of(field(1, 5) + field(2, 1) + field(3, 1) + field(4, "12345"s)), HasSubstr("1 to 4 channels"));
    EXPECT_THAT(error_of("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"s), HasSubstr("ten bytes"));
    EXPECT_THAT(error_of(sides + "\x23"), HasSubstr("wire type"));
    EXPECT_THAT(error_of(field(4, "no image"s) + field(7, 1)), HasSubstr("a JPEG, PNG"));
}

// Pickles of protocol 2 and 3, for texts and bytes of length < 256 and numbers of one byte.
std::string text(const std::string& s) {
    return "X" + std::string(1, static_cast<char>(s.size())) + "\0\0\0"s + s;
}
std::string bytes(const std::string& s) {
    return "C" + std::string(1, static_cast<char>(s.size())) + s;
}
std::string number(int n) {
    return "K" + std::string(1, static_cast<char>(n));
}
std::string pickle(const std::string& content) {
    return "\x80\3" + content + ".";
}
std::string dict(const std::string& content) {
    return pickle("}(" + content + "u");
}

TEST(LmdbRecord, PickledDictsTuplesAndBytes) {
    LmdbRecord record;
    Sample sample;
    const auto label_of = [&](const std::string& value) {
        record.read(as_bytes(value), sample);
        EXPECT_TRUE(sample.encoded);
        EXPECT_EQ(text_of(sample), kJpeg);
        return sample.label;
    };
    for (int twice = 0; twice < 2; ++twice) {
        EXPECT_EQ(label_of(dict(text("image") + bytes(kJpeg) + text("label") + number(3))), 3);
        EXPECT_EQ(label_of(dict(text("y") + number(4) + text("x") + bytes(kJpeg))), 4);
        EXPECT_EQ(label_of(dict(text("img") + bytes(kJpeg))), -1);
        EXPECT_EQ(label_of(dict(text("img") + bytes(kJpeg) + text("label") + text("cat"))), -1);
    }
    EXPECT_EQ(label_of(pickle(bytes(kJpeg) + number(5) + "\x86")), 5);
    EXPECT_EQ(label_of(pickle(number(6) + bytes(kJpeg) + "\x86")), 6);
    EXPECT_EQ(label_of(pickle("]" + bytes(kJpeg) + "a")), -1);
    EXPECT_EQ(label_of(pickle(bytes(kJpeg))), -1);
}

// The same value gives the same sample after any other values.
TEST(LmdbRecord, FieldsAreFoundInEachRecord) {
    LmdbRecord record;
    Sample sample;
    const std::string one = dict(text("data") + bytes(kJpeg + "1"));
    record.read(as_bytes(one), sample);
    const std::string both = dict(text("data") + bytes(kJpeg + "1") + text("image") + bytes(kJpeg + "2"));
    record.read(as_bytes(both), sample);
    EXPECT_EQ(text_of(sample), kJpeg + "2");
    LmdbRecord named(FieldNames{.image = "data", .label = ""});
    named.read(as_bytes(both), sample);
    EXPECT_EQ(text_of(sample), kJpeg + "1");
}

TEST(LmdbRecord, ValuesInTheSamplesOwnMemory) {
    LmdbRecord record;
    for (const std::string& value :
         {field(1, 3) + field(2, 1) + field(3, 2) + field(4, "rRgGbB"s), kJpeg, dict(text("image") + bytes(kJpeg))}) {
        Sample in_place;
        in_place.storage.resize(value.size());
        std::memcpy(in_place.storage.data(), value.data(), value.size());
        record.read(in_place.storage.bytes(), in_place);
        Sample apart;
        record.read(as_bytes(value), apart);
        EXPECT_EQ(text_of(in_place), text_of(apart));
    }
}

// Transposed pixels overwrite the pickle in the sample's storage, into which large values are read. The label must have
// been read before.
TEST(LmdbRecord, PlanesInTheSamplesOwnMemoryKeepTheirLabel) {
    using namespace stoker::testing;
    constexpr std::int64_t kSide = 256;
    std::string planes;
    std::string turned;
    for (std::int64_t i = 0; i < 3 * kSide * kSide; ++i) {
        planes += static_cast<char>(i / (kSide * kSide) * 70 + i % 61);
    }
    for (std::int64_t i = 0; i < 3 * kSide * kSide; ++i) {
        turned += planes[static_cast<std::size_t>(i % 3 * kSide * kSide + i / 3)];
    }
    const std::string image = pickled_array(pickled_dtype("u1", "|"), {3, kSide, kSide}, planes);
    const std::string label = pickled_array(pickled_dtype("i8", "<"), {}, little_endian(7, 8));
    for (const std::string& content :
         {pickled_dict({pickled_text("image"), image, pickled_text("label"), pickled_int(7)}),
          pickled_dict({pickled_text("image"), image, pickled_text("label"), label}), pickled_tuple({image, label}),
          pickled_tuple({pickled_int(7), image})}) {
        const std::string value = pickle(content);
        LmdbRecord record;
        Sample sample;
        for (int twice = 0; twice < 2; ++twice) {
            sample.storage.resize(value.size());
            std::memcpy(sample.storage.data(), value.data(), value.size());
            record.read(sample.storage.bytes(), sample);
            EXPECT_EQ(sample.label, 7);
            EXPECT_TRUE(text_of(sample) == turned);
            EXPECT_EQ(std::vector({sample.height, sample.width, sample.channels}), std::vector({256, 256, 3}));
        }
    }
}

TEST(LmdbRecord, OtherBytesAreDescribed) {
    EXPECT_THAT(error_of("plain text"), HasSubstr("10 bytes: 70 6c 61 69 6e 20 74 65"));
    EXPECT_THAT(error_of(""), HasSubstr("got 0 bytes"));
    EXPECT_THAT(error_of(pickle(number(3))), HasSubstr("an image: an array of uint8"));
    EXPECT_THAT(error_of(dict(text("a") + number(3) + text("b") + number(4))), HasSubstr("a, b"));
    EXPECT_THAT(error_of(pickle(bytes("no image"))), HasSubstr("a JPEG, PNG"));
    EXPECT_THAT(error_of(pickle(")")), HasSubstr("an image"));
}

// A key of a megabyte that all pairs refer to.
TEST(LmdbRecord, OneTextManyTimesIsNotCopied) {
    std::string pairs;
    for (int i = 0; i < 3000; ++i) {
        pairs += "h\0N"s;
    }
    const std::string value = pickle("X\0\0\x10\0"s + std::string(1 << 20, 'k') + "q\0"s + "0}(" + pairs + "u");
    EXPECT_THAT(error_of(value), HasSubstr("one text many times"));
}

}  // namespace
}  // namespace stoker
