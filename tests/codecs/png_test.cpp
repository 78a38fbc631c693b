// PNG: every colour type and bit depth compared with a simple formula, interlaced or not; truncation at every byte,
// checksums, mutations.
#include "stoker/codecs/decoders.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spng.h>

#include <memory>

#include "codecs/fixtures.h"

namespace stoker {
namespace {

using namespace stoker::testing;
using ::testing::HasSubstr;

struct Layout {
    spng_color_type color;
    int depth;
    int samples;  // per pixel
};
constexpr Layout kLayouts[] = {
    {SPNG_COLOR_TYPE_GRAYSCALE, 1, 1},        {SPNG_COLOR_TYPE_GRAYSCALE, 2, 1},
    {SPNG_COLOR_TYPE_GRAYSCALE, 4, 1},        {SPNG_COLOR_TYPE_GRAYSCALE, 8, 1},
    {SPNG_COLOR_TYPE_GRAYSCALE, 16, 1},       {SPNG_COLOR_TYPE_TRUECOLOR, 8, 3},
    {SPNG_COLOR_TYPE_TRUECOLOR, 16, 3},       {SPNG_COLOR_TYPE_INDEXED, 1, 1},
    {SPNG_COLOR_TYPE_INDEXED, 2, 1},          {SPNG_COLOR_TYPE_INDEXED, 4, 1},
    {SPNG_COLOR_TYPE_INDEXED, 8, 1},          {SPNG_COLOR_TYPE_GRAYSCALE_ALPHA, 8, 2},
    {SPNG_COLOR_TYPE_GRAYSCALE_ALPHA, 16, 2}, {SPNG_COLOR_TYPE_TRUECOLOR_ALPHA, 8, 4},
    {SPNG_COLOR_TYPE_TRUECOLOR_ALPHA, 16, 4},
};

struct Sample {
    Bytes png;
    Image expected;
    Image indices;  // of grey and indexed images: the stored samples on all channels
};

// Random samples in PNG's packing, and their RGB.
class SampleWriter {
  public:
    SampleWriter(const Layout& layout, int height, int width)
        : layout_(layout),
          height_(height),
          width_(width),
          rng_({.seed = 5}),
          expected_(height, width, 3),
          indices_(height, width, 3) {
        palette_.n_entries = 1u << std::min(layout.depth, 8);
        for (std::uint32_t i = 0; i < palette_.n_entries; ++i) {
            palette_.entries[i] = {byte(), byte(), byte(), 255};
        }
    }

    // Values of 16 bits have only so many of them.
    SampleWriter& with_bits(int bits) {
        depth_16_ = bits;
        return *this;
    }

    Sample write(bool interlaced, bool transparent) {
        for (int y = 0; y < height_; ++y) {
            write_row(y);
        }
        return {encode(interlaced, transparent), std::move(expected_), std::move(indices_)};
    }

  private:
    std::uint8_t byte() { return static_cast<std::uint8_t>(rng_.below(256)); }

    void write_row(int y) {
        int used = 0;  // bits of the last byte
        for (int x = 0; x < width_; ++x) {
            std::uint32_t values[4] = {};
            for (int s = 0; s < layout_.samples; ++s) {
                values[s] = rng_.below(1u << (layout_.depth == 16 ? depth_16_ : layout_.depth));
                if (layout_.depth == 16) {  // libspng expects 16-bit samples in the host's byte order
                    raw_.push_back(static_cast<std::uint8_t>(values[s]));
                    raw_.push_back(static_cast<std::uint8_t>(values[s] >> 8));
                    continue;
                }
                if (used == 0) {
                    raw_.push_back(0);
                }
                raw_.back() = static_cast<std::uint8_t>(raw_.back() | values[s] << (8 - layout_.depth - used));
                used = (used + layout_.depth) % 8;
            }
            expect(y, x, values);
        }
    }

    void expect(int y, int x, const std::uint32_t* values) {
        std::uint8_t* pixel = expected_.view().row(y) + 3 * x;
        std::fill_n(indices_.view().row(y) + 3 * x, 3, static_cast<std::uint8_t>(values[0]));
        const spng_plte_entry& entry = palette_.entries[values[0] & 255];
        const std::uint8_t colors[3] = {entry.red, entry.green, entry.blue};
        for (int c = 0; c < 3; ++c) {
            const std::uint32_t value = values[layout_.samples >= 3 ? c : 0];
            pixel[c] = layout_.color == SPNG_COLOR_TYPE_INDEXED ? colors[c]
                       : layout_.depth == 16                    ? static_cast<std::uint8_t>(value >> 8)
                                             : static_cast<std::uint8_t>(value * 255 / ((1u << layout_.depth) - 1));
        }
    }

    Bytes encode(bool interlaced, bool transparent) {
        const std::unique_ptr<spng_ctx, decltype(&spng_ctx_free)> context(spng_ctx_new(SPNG_CTX_ENCODER),
                                                                          spng_ctx_free);
        spng_ihdr header{.width = static_cast<std::uint32_t>(width_),
                         .height = static_cast<std::uint32_t>(height_),
                         .bit_depth = static_cast<std::uint8_t>(layout_.depth),
                         .color_type = static_cast<std::uint8_t>(layout_.color),
                         .compression_method = 0,
                         .filter_method = 0,
                         .interlace_method = static_cast<std::uint8_t>(interlaced ? 1 : 0)};
        EXPECT_EQ(spng_set_ihdr(context.get(), &header), 0);
        if (layout_.color == SPNG_COLOR_TYPE_INDEXED) {
            EXPECT_EQ(spng_set_plte(context.get(), &palette_), 0);
        }
        if (transparent) {
            spng_trns clear{};
            clear.n_type3_entries = 1;
            EXPECT_EQ(spng_set_trns(context.get(), &clear), 0);
        }
        EXPECT_EQ(spng_set_option(context.get(), SPNG_ENCODE_TO_BUFFER, 1), 0);
        EXPECT_EQ(spng_encode_image(context.get(), raw_.data(), raw_.size(), SPNG_FMT_PNG, SPNG_ENCODE_FINALIZE), 0);
        std::size_t size = 0;
        int status = 0;
        const std::unique_ptr<void, decltype(&std::free)> data(spng_get_png_buffer(context.get(), &size, &status),
                                                               std::free);
        const auto* begin = static_cast<const std::byte*>(data.get());
        return {begin, begin + size};
    }

    Layout layout_;
    int height_;
    int width_;
    Rng rng_;
    int depth_16_ = 16;
    Image expected_;
    Image indices_;
    spng_plte palette_{};
    std::vector<std::uint8_t> raw_;
};

TEST(PngTest, EveryColourTypeAndDepth) {
    Decoder decoder;
    for (const Layout& layout : kLayouts) {
        for (const bool interlaced : {false, true}) {
            for (const auto& [height, width] : {std::pair{1, 1}, {5, 3}, {3, 11}, {20, 17}}) {
                const Sample sample = SampleWriter(layout, height, width).write(interlaced, false);
                EXPECT_EQ(decoder.info(sample.png).progressive, interlaced);
                EXPECT_EQ(decoder.info(sample.png).bits, layout.depth > 8 ? 16 : 8);
                EXPECT_TRUE(same_pixels(decode(decoder, sample.png).view(), sample.expected.view()))
                    << "colour type " << layout.color << ", " << layout.depth << " bits, " << height << " x " << width
                    << (interlaced ? ", interlaced" : "");
                RowByRow rows;
                decoder.decode(sample.png, rows);
                EXPECT_TRUE(rows.complete());
            }
        }
    }
}

TEST(PngTest, TransparencyChangesNoColour) {
    for (const Layout& layout : {kLayouts[3], kLayouts[5], kLayouts[10]}) {
        const Sample sample = SampleWriter(layout, 6, 9).write(false, true);
        EXPECT_TRUE(same_pixels(decode(sample.png).view(), sample.expected.view()));
    }
}

TEST(PngTest, IndicesAreTheStoredValues) {
    Decoder decoder;
    for (const Layout& layout : kLayouts) {
        for (const bool interlaced : {false, true}) {
            for (const auto& [height, width] : {std::pair{1, 1}, {5, 3}, {3, 11}, {20, 17}}) {
                const Sample sample = SampleWriter(layout, height, width).with_bits(8).write(interlaced, false);
                Image image;
                ImageSink sink(image);
                const bool grey_and_alpha = layout.samples == 2 && layout.depth == 8;
                if (layout.samples > 1 && !grey_and_alpha) {
                    EXPECT_THROW(decoder.decode(sample.png, sink, {.indices = true}), DataError);
                    continue;
                }
                decoder.decode(sample.png, sink, {.indices = true});
                EXPECT_TRUE(same_pixels(image.view(), (grey_and_alpha ? sample.expected : sample.indices).view()))
                    << "colour type " << layout.color << ", " << layout.depth << " bits, " << height << " x " << width
                    << (interlaced ? ", interlaced" : "");
                decoder.decode(sample.png, sink);  // indices change no later image
                EXPECT_TRUE(same_pixels(image.view(), sample.expected.view()));
            }
        }
    }
}

TEST(PngTest, IndicesAreRefusedWhereTheyAreNone) {
    Decoder decoder;
    Image image;
    ImageSink sink(image);
    const auto error_of = [&](const Bytes& bytes) -> std::string {
        try {
            decoder.decode(bytes, sink, {.indices = true});
        } catch (const DataError& error) {
            return error.what();
        }
        return "decoded";
    };
    EXPECT_THAT(error_of(SampleWriter(kLayouts[4], 20, 17).write(false, false).png),
                HasSubstr("class indices up to 255"));
    EXPECT_THAT(error_of(SampleWriter(kLayouts[5], 2, 2).write(false, false).png), HasSubstr("got RGB"));
    EXPECT_THAT(error_of(SampleWriter(kLayouts[12], 2, 2).write(false, false).png), HasSubstr("with alpha"));
    EXPECT_EQ(error_of(SampleWriter(kLayouts[11], 2, 2).write(false, false).png), "decoded");
    EXPECT_THAT(error_of(encode_jpeg(picture(4, 4, 1).view())),
                HasSubstr("expected a PNG or TIFF of class indices, got jpeg"));
}

TEST(PngTest, EncoderRoundTripsExactly) {
    for (const int channels : {1, 3}) {
        const Image image = picture(31, 18, channels);
        const ConstImageView part = std::as_const(image).view().crop({.top = 3, .left = 2, .height = 20, .width = 11});
        const Image back = decode(encode_png(part));
        ASSERT_EQ(back.height(), 20);
        ASSERT_EQ(back.width(), 11);
        for (int y = 0; y < 20; ++y) {
            for (int x = 0; x < 33; ++x) {
                ASSERT_EQ(back.view().row(y)[x], part.row(y)[channels == 3 ? x : x / 3]);
            }
        }
    }
    EXPECT_THROW(encode_png(picture(4, 4, 4).view()), InvalidArgument);
    EXPECT_THROW(encode_png(Image(4, 0, 3).view()), InvalidArgument);
}

TEST(PngTest, EveryTruncationIsADataErrorThatSaysSo) {
    Decoder decoder;
    for (const bool interlaced : {false, true}) {
        const Bytes whole = SampleWriter(kLayouts[5], 9, 7).write(interlaced, false).png;
        ASSERT_TRUE(survives(decoder, whole));
        for (std::size_t size = 0; size < whole.size(); ++size) {
            const Bytes cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
            ASSERT_FALSE(survives(decoder, cut)) << size << " of " << whole.size();
            if (size >= 8) {
                ASSERT_THAT(error_of([&] { decode(decoder, cut); }),
                            HasSubstr("truncated PNG that ends after " + std::to_string(size) + " bytes"));
            }
        }
    }
}

TEST(PngTest, EveryFlippedBitIsNoticed) {
    Decoder decoder;
    const Bytes whole = png_with_exif(encode_png(picture(4, 5).view()), exif_block(6, true));
    for (std::size_t bit = 0; bit < 8 * whole.size(); ++bit) {
        Bytes bytes = whole;
        bytes[bit / 8] ^= std::byte{1} << (bit % 8);
        ASSERT_FALSE(survives(decoder, bytes)) << "bit " << bit % 8 << " of byte " << bit / 8;
    }
}

TEST(PngTest, RefusesSizesBeforeAllocatingMemory) {
    const Bytes png = encode_png(picture(4, 4).view());
    Bytes header;
    append_number(header, 20000, 4, true);
    append_number(header, 20000, 4, true);
    const Bytes huge =
        joined({std::span(png).first(8), png_chunk("IHDR", joined({header, std::span(png).subspan(24, 5)})),
                std::span(png).subspan(33)});
    EXPECT_THAT(error_of([&] { decode(huge); }), HasSubstr("20000 x 20000"));
}

// Mutates the data of one chunk of `png` and corrects its checksum.
Bytes mutated_chunk(const Bytes& png, Rng& rng) {
    std::vector<Bytes> chunks;
    for (std::size_t at = 8; at < png.size();) {
        std::size_t length = 0;
        for (std::size_t i = 0; i < 4; ++i) {
            length = length << 8 | std::to_integer<std::size_t>(png[at + i]);
        }
        const auto chunk = std::span(png).subspan(at, 12 + length);
        chunks.emplace_back(chunk.begin(), chunk.end());
        at += 12 + length;
    }
    Bytes& chunk = chunks[rng.below(static_cast<std::uint32_t>(chunks.size()))];
    const std::string type(reinterpret_cast<const char*>(chunk.data()) + 4, 4);
    chunk = png_chunk(type, mutated(Bytes(chunk.begin() + 8, chunk.end() - 4), rng));
    Bytes bytes(png.begin(), png.begin() + 8);
    for (const Bytes& part : chunks) {
        bytes.insert(bytes.end(), part.begin(), part.end());
    }
    return bytes;
}

TEST(PngTest, RandomMutationsAreDecodedOrDataErrors) {
    Decoder decoder;
    Rng rng({.seed = 12});
    const Bytes originals[] = {
        encode_png(picture(8, 6).view()), SampleWriter(kLayouts[9], 7, 9).write(true, false).png,
        png_with_exif(SampleWriter(kLayouts[14], 4, 4).write(false, false).png, exif_block(8, false))};
    for (int round = 0; round < 4000; ++round) {
        survives(decoder, mutated(originals[round % 3], rng), {.exif = round % 2 == 0});
    }
    // Checksums would stop such damage early, so this corrects the checksum of the damaged chunk.
    int clean = 0;
    for (int round = 0; round < 4000; ++round) {
        clean += survives(decoder, mutated_chunk(originals[round % 3], rng), {.exif = round % 2 == 0}) ? 1 : 0;
    }
    EXPECT_GT(clean, 100);
    EXPECT_LT(clean, 3900);
    EXPECT_TRUE(survives(decoder, originals[0]));
}

}  // namespace
}  // namespace stoker
