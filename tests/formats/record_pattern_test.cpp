// Records that look alike are read without their opcodes, and as their opcodes would have been: a reader that has
// learned gives what a fresh one gives, also for records that only seem to be alike.
#include "stoker/formats/record_pattern.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "formats/pickle_support.h"
#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/formats/lmdb_record.h"

namespace stoker {
namespace {

using namespace std::string_literals;
using namespace stoker::testing;

constexpr std::size_t kPixels = 4 * 7;

std::string pickle(const std::string& content) {
    return "\x80\3" + content + ".";
}

std::string small_int(int value) {
    return "K"s + static_cast<char>(value);
}

std::string image_of(std::string_view pixels) {
    return pickled_array(pickled_dtype("u1", "|"), {4, 7}, pixels);
}

std::string dict_of(std::string_view pixels, const std::string& label) {
    return pickle(pickled_dict({pickled_text("image"), image_of(pixels), pickled_text("label"), label}));
}

std::string pixels_of(std::mt19937& random) {
    std::string pixels(kPixels, ' ');
    for (char& pixel : pixels) {
        pixel = static_cast<char>(random());
    }
    return pixels;
}

std::string said(LmdbRecord& record, const std::string& value) {
    Sample sample;
    try {
        record.read(as_bytes(value), sample);
    } catch (const Error& error) {
        return error.what();
    }
    return std::string(reinterpret_cast<const char*>(sample.bytes.data()), sample.bytes.size()) +
           (sample.encoded ? " encoded " : " raw ") + std::to_string(sample.height) + " " +
           std::to_string(sample.width) + " " + std::to_string(sample.channels) + " " + std::to_string(sample.label);
}

RecordPattern pattern_of(const std::string& value, std::string_view pixels, std::string_view label) {
    Sample sample;
    sample.bytes = as_bytes(value).subspan(value.find(pixels), pixels.size());
    sample.height = 4;
    sample.width = 7;
    sample.channels = 1;
    sample.label = 3;
    ArrayView place;
    place.type = {.kind = ArrayKind::natural, .item_size = static_cast<int>(label.size())};
    place.bytes = as_bytes(value).subspan(value.rfind(label), label.size());
    auto pattern = RecordPattern::of(as_bytes(value), sample, place);
    EXPECT_TRUE(pattern.has_value());
    return std::move(*pattern);
}

TEST(RecordPattern, TakesPixelsAndLabelFromWhatIsOtherwiseTheSame) {
    const std::string value = "sixteen bytes or more, ABCDEFGHIJKLMNOPQRSTUVWXYZ01 then 3 end";
    const std::string_view pixels = "ABCDEFGHIJKLMNOPQRSTUVWXYZ01";
    const RecordPattern pattern = pattern_of(value, pixels, "3");
    std::string other = value;
    other.replace(other.find(pixels), pixels.size(), std::string(pixels.size(), '\xfe'));
    other[other.rfind('3')] = '\x07';
    Sample sample;
    ASSERT_TRUE(pattern.read(as_bytes(other), sample));
    EXPECT_EQ(sample.bytes.data(), as_bytes(other).data() + other.find('\xfe'));
    EXPECT_EQ(sample.bytes.size(), pixels.size());
    EXPECT_EQ(sample.label, 7);
    EXPECT_EQ(std::vector({sample.height, sample.width, sample.channels}), std::vector({4, 7, 1}));

    Buffer storage;
    const auto opposite = pattern.opposite(storage);
    ASSERT_TRUE(pattern.read(opposite, sample));
    EXPECT_EQ(sample.label, 0xff - '3');
    EXPECT_EQ(sample.bytes[0], ~std::byte{'A'});

    for (std::size_t at = 0; at < value.size(); ++at) {  // any other byte makes it another record
        std::string changed = value;
        changed[at] = '\x05';
        const bool free = (at >= value.find('A') && at < value.find('A') + pixels.size()) || at == value.rfind('3');
        EXPECT_EQ(pattern.read(as_bytes(changed), sample), free) << at;
    }
    EXPECT_FALSE(pattern.read(as_bytes(value).first(value.size() - 1), sample));
    EXPECT_FALSE(pattern.read(as_bytes(value + " "), sample));
}

TEST(RecordPattern, NoneWherePixelsMayBeSomethingElse) {
    const std::string value(100, 'v');
    Sample sample;
    sample.height = 4;
    sample.width = 7;
    sample.channels = 1;
    const auto has = [&](std::size_t begin) {
        sample.bytes = as_bytes(value).subspan(begin, kPixels);
        return RecordPattern::of(as_bytes(value), sample, std::nullopt).has_value();
    };
    EXPECT_TRUE(has(16));
    EXPECT_FALSE(has(15));  // the bytes that tell what a value is
    sample.width = 1;       // a column may be an encoded image
    EXPECT_FALSE(has(16));
    sample.width = 7;
    sample.encoded = true;
    EXPECT_FALSE(has(16));
    sample.encoded = false;
    const std::string elsewhere(kPixels, 'e');
    sample.bytes = as_bytes(elsewhere);
    EXPECT_FALSE(RecordPattern::of(as_bytes(value), sample, std::nullopt).has_value());
}

TEST(RecordPattern, AReaderThatHasLearnedGivesWhatAFreshOneGives) {
    std::mt19937 random(1);
    const auto scalar = [](std::uint64_t value, const char* code, const char* order, int bytes) {
        return pickled_array(pickled_dtype(code, order), {}, little_endian(value, bytes));
    };
    LmdbRecord learned;
    for (int i = 0; i < 2000; ++i) {
        const std::string pixels = pixels_of(random);
        const auto number = static_cast<int>(random() % 200);
        const std::string records[] = {
            dict_of(pixels, small_int(number)),
            dict_of(pixels, "M" + little_endian(static_cast<std::uint64_t>(number) * 300, 2)),
            dict_of(pixels, "J" + little_endian(static_cast<std::uint64_t>(number - 100), 4)),
            dict_of(pixels, scalar(static_cast<std::uint64_t>(number - 100), "i8", "<", 8)),
            dict_of(pixels, scalar(static_cast<std::uint64_t>(number) << 8, "u2", ">", 2)),
            dict_of(pixels, pickled_int(number)),
            dict_of(pixels, "N"),
            pickle(pickled_tuple({image_of(pixels), small_int(number)})),
            pickle(pickled_tuple({small_int(number), image_of(pixels)})),
            pickle(image_of(pixels)),
            pickle(pickled_array(pickled_dtype("u1", "|"), {4, 7}, pixels, true)),
            pickle(pickled_array(pickled_dtype("u1", "|"), {1, 28}, "\xff\xd8\xff" + pixels.substr(3))),
            pickle(pickled_array(pickled_dtype("u1", "|"), {1, 28}, pixels)),
        };
        // Long stretches of one kind, so that it is learned, then all of them in turn.
        const std::size_t kind = i < 1300 ? static_cast<std::size_t>(i / 100) : random() % std::size(records);
        std::string value = records[kind];
        if (i % 10 == 9) {
            value[random() % value.size()] ^= static_cast<char>(1 << random() % 8);
        }
        LmdbRecord fresh;
        EXPECT_EQ(said(learned, value), said(fresh, value)) << "record " << i << " of kind " << kind;
    }
}

// The label is the image's height too, by way of the pickle's memory.
TEST(RecordPattern, ANumberThatIsUsedTwiceIsNoLabelOfItsOwn) {
    const auto record = [](int label, std::string_view pixels) {
        std::string image = image_of(pixels);
        const std::string height = pickled_int(4);
        image.replace(image.rfind(height), height.size(), "h\x05");
        return pickle(pickled_dict({pickled_text("label"), small_int(label) + "q\x05", pickled_text("image"), image}));
    };
    LmdbRecord used;
    const std::string pixels(kPixels, 'p');
    EXPECT_EQ(said(used, record(4, pixels)), pixels + " raw 4 7 1 4");
    EXPECT_EQ(said(used, record(4, pixels)), pixels + " raw 4 7 1 4");
    LmdbRecord fresh;
    EXPECT_EQ(said(used, record(5, pixels)), said(fresh, record(5, pixels)));
    EXPECT_EQ(said(used, record(5, pixels)).find("raw"), std::string::npos);
}

}  // namespace
}  // namespace stoker
