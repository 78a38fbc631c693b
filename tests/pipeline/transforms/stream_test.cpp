// Strong shrinks of encoded images are written while they are decoded, with the bits of decoding first.
#include <gtest/gtest.h>

#include <array>

#include "codecs/jpeg/jpeg_files.h"
#include "pipeline/transforms/step_by_step.h"
#include "stoker/codecs/encode.h"
#include "stoker/pipeline/transforms/transform.h"

namespace stoker::testing {
namespace {

constexpr int kHeight = 40;
constexpr int kWidth = 48;
constexpr std::size_t kBytes = std::size_t{3} * kHeight * kWidth;

using Pixels = std::vector<std::byte>;

ImageSlot slot_of(Pixels& out) {
    out.resize(kBytes);
    return {.pixels = {.data = out.data(), .dtype = DType::uint8}, .channels = 3, .height = kHeight, .width = kWidth};
}

FieldValue encoded(const Bytes& bytes) {
    FieldValue value;
    value.set_encoded_image(bytes);
    return value;
}

struct Result {
    Pixels pixels;
    bool stored = false;  // the decoded image was in memory
    StageTimes times;
};

Result run(const Transform& transform, const Bytes& bytes, std::uint64_t sample, TransformScratch& scratch) {
    Result result;
    scratch.decoded = Image();
    StageClock clock(result.times);
    transform.run(encoded(bytes), {.seed = 3, .sample = sample}, scratch, slot_of(result.pixels), clock);
    result.stored = scratch.decoded.bytes() > 0;
    return result;
}

// With the same random numbers, from the whole decoded image.
Pixels expected(const Transform& transform, const Bytes& bytes, bool exif, std::uint64_t sample) {
    const Image whole = decode(bytes, {.exif = exif});
    TransformScratch scratch;
    StageTimes times;
    StageClock clock(times);
    FieldValue raw;
    raw.set_raw(std::as_bytes(std::span(whole.view().data, whole.bytes())), whole.height(), whole.width(), 3);
    Pixels out;
    transform.run(raw, {.seed = 3, .sample = sample}, scratch, slot_of(out), clock);
    return out;
}

Transform crops(const TransformOptions& options = {}) {
    return Transform({RandomResizedCrop{.height = kHeight, .width = kWidth}, HorizontalFlip{0.5F}}, options);
}

TEST(Stream, GivesThePixelsOfDecodingFirst) {
    TransformScratch scratch;
    int streamed = 0;
    for (std::uint64_t trial = 0; trial < 40; ++trial) {
        JpegPlan plan{.width = 700 + static_cast<int>(trial), .height = 900, .seed = trial};
        plan.progressive = trial % 5 == 0;
        plan.orientation = static_cast<int>(trial % 9);
        const Bytes bytes = trial % 4 == 3 ? encode_png(picture(700, 650, 3, trial).view()) : make_jpeg(plan);
        const bool exif = trial % 2 == 0;
        const Result result = run(crops({.exif = exif}), bytes, trial, scratch);
        ASSERT_EQ(result.pixels, expected(crops(), bytes, exif, trial)) << trial;
        streamed += result.stored ? 0 : 1;
    }
    EXPECT_EQ(streamed > 20, best_kernels().shrink != nullptr) << streamed;
}

TEST(Stream, FastDecodingStreamsTheRest) {
    TransformScratch scratch;
    const Transform fast({Resize{.size = ImageSize{kHeight, kWidth}}}, TransformOptions{.decode = DecodeMode::fast});
    const Transform exact({Resize{.size = ImageSize{kHeight, kWidth}}});
    const Bytes bytes = make_jpeg({.width = 1500, .height = 1300});
    const Pixels a = run(fast, bytes, 1, scratch).pixels;
    const Pixels b = run(exact, bytes, 1, scratch).pixels;
    int largest = 0;
    for (std::size_t i = 0; i < kBytes; ++i) {
        largest = std::max(largest, std::abs(std::to_integer<int>(a[i]) - std::to_integer<int>(b[i])));
    }
    EXPECT_GT(largest, 0);
    EXPECT_LT(largest, 12);
}

// libjpeg decodes the image again from its first row.
TEST(Stream, DamagedImagesAreThoseOfDecodingFirst) {
    TransformScratch scratch;
    Rng rng({.seed = 5});
    int pictures = 0;
    for (std::uint64_t trial = 0; trial < 60; ++trial) {
        Bytes bytes = make_jpeg({.width = 800, .height = 700, .seed = trial});
        bytes[bytes.size() / 2 + rng.below(static_cast<std::uint32_t>(bytes.size() / 2))] ^= std::byte{0x5a};
        const Transform resize({Resize{.size = ImageSize{kHeight, kWidth}}});
        Pixels want;
        try {
            want = expected(resize, bytes, false, trial);
        } catch (const DataError&) {
            EXPECT_THROW(run(resize, bytes, trial, scratch), DataError);
            continue;
        }
        ++pictures;
        ASSERT_EQ(run(resize, bytes, trial, scratch).pixels, want) << trial;
    }
    EXPECT_GT(pictures, 10);
}

// The time of rows that were resized before the end of a file that is too short is not the next image's.
TEST(Stream, TimesOfAFailedImageAreDropped) {
    TransformScratch scratch;
    const Transform resize({Resize{.size = ImageSize{kHeight, kWidth}}});
    Bytes bytes = encode_png(picture(1800, 1600).view());
    bytes.resize(bytes.size() * 9 / 10);
    EXPECT_THROW(run(resize, bytes, 0, scratch), DataError);
    const Result small = run(resize, encode_png(picture(kHeight, kWidth).view()), 0, scratch);
    EXPECT_GE(small.times[Stage::pixels].count(), 0);
    EXPECT_GE(small.times[Stage::augment].count(), 0);
}

TEST(Stream, OtherSizesThanTheSlotsAreRefusedAsBefore) {
    TransformScratch scratch;
    const Transform resize({Resize{.size = ImageSize{kHeight, kWidth + 1}}});
    EXPECT_THROW(run(resize, make_jpeg({.width = 900, .height = 700}), 0, scratch), SizeMismatch);
}

}  // namespace
}  // namespace stoker::testing
