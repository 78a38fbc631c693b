// Shared by the decoder targets. An input is a few bytes that choose a region, followed by the image. Decoder decodes
// the whole image and the region. Both may throw only DataError; if the whole image decodes, the region must decode,
// too, and equal that part of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <span>
#include <vector>

#include "fuzz/promise.h"
#include "stoker/base/error.h"
#include "stoker/base/image.h"
#include "stoker/codecs/codec.h"

namespace stoker::fuzz {

// Two bytes each for top, left, height and width, as shares of the image; one byte of flags.
inline constexpr std::size_t kChoice = 9;

// Larger images are skipped, because they only cost time.
inline constexpr std::int64_t kLargest = std::int64_t{1} << 20;

struct Choice {
    std::uint32_t share[4];
    DecodeOptions options;
    bool mend;  // correct checksums and sizes, so that the damage passes these checks
    bool shrink;

    explicit Choice(std::span<const std::byte> bytes) {
        for (std::size_t i = 0; i < 4; ++i) {
            share[i] =
                std::to_integer<std::uint32_t>(bytes[2 * i]) << 8 | std::to_integer<std::uint32_t>(bytes[2 * i + 1]);
        }
        const auto flags = std::to_integer<unsigned>(bytes[8]);
        options = {.exif = (flags & 1) != 0, .first_frame = (flags & 8) != 0, .indices = (flags & 16) != 0};
        mend = (flags & 2) != 0;
        shrink = (flags & 4) != 0;
    }

    Box box(int height, int width) const {
        const int top = part(height, share[0]);
        const int left = part(width, share[1]);
        return {.top = top,
                .left = left,
                .height = 1 + part(height - top, share[2]),
                .width = 1 + part(width - left, share[3])};
    }

  private:
    static int part(int side, std::uint32_t share) {
        return static_cast<int>(static_cast<std::int64_t>(side) * share / 65536);
    }
};

class ChoiceSink final : public RowSink {
  public:
    ChoiceSink(const Choice& choice, int shrink, Image& image) : choice_(choice), shrink_(shrink), image_(image) {}
    Region region(int height, int width) override {
        box_ = choice_.box(height, width);
        return {.box = box_, .shrink = shrink_};
    }
    void start(int height, int width, int channels) override { image_.reset(height, width, channels); }
    std::uint8_t* row(int y) override { return image_.view().row(y); }

    const Box& box() const { return box_; }

  private:
    const Choice& choice_;
    int shrink_;
    Image& image_;
    Box box_;
};

inline bool decodes(Decoder& decoder, std::span<const std::byte> bytes, RowSink& sink, const DecodeOptions& options) {
    try {
        decoder.decode(bytes, sink, options);
        return true;
    } catch (const DataError&) {
        return false;
    }
}

inline bool is_small(Decoder& decoder, std::span<const std::byte> bytes, const DecodeOptions& options = {}) {
    try {
        const ImageInfo info = decoder.info(bytes, options);
        return std::int64_t{info.height} * info.width <= kLargest;
    } catch (const DataError&) {
        return true;  // decoding must also refuse it
    }
}

inline void require_same(ConstImageView a, ConstImageView b) {
    require(a.height == b.height && a.width == b.width && a.channels == b.channels);
    for (int y = 0; y < a.height; ++y) {
        require(std::memcmp(a.row(y), b.row(y), a.row_bytes()) == 0);
    }
}

using Mend = void (*)(std::vector<std::byte>& image);

inline void decode_input(Codec codec, std::span<const std::byte> input, Mend mend = nullptr) {
    static Decoder decoder;  // reused: no image may affect the next one
    static Image whole;
    static Image part;
    if (input.size() < kChoice) {
        return;
    }
    const Choice choice(input.first(kChoice));
    std::vector<std::byte> image(input.begin() + kChoice, input.end());
    if (choice.mend && mend != nullptr) {
        mend(image);
    }
    if (sniff_codec(image) != codec || !is_small(decoder, image, choice.options)) {
        return;
    }
    ImageSink whole_sink(whole);
    const bool good = decodes(decoder, image, whole_sink, choice.options);
    ChoiceSink part_sink(choice, 1, part);
    const bool part_good = decodes(decoder, image, part_sink, choice.options);
    if (good) {
        require(part_good);
        require_same(part.view(), whole.view().crop(part_sink.box()));
    }
    if (choice.shrink) {
        // For a damaged image, the shrunk decode may read a row of blocks more or less, so it may fail or succeed.
        for (const int shrink : {2, 4, 8}) {
            ChoiceSink small_sink(choice, shrink, part);
            require(decodes(decoder, image, small_sink, choice.options) || !good);
        }
    }
}

}  // namespace stoker::fuzz
