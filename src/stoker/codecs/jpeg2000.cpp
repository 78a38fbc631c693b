// OpenJPEG decodes to integers of 32 bits, one plane for each channel. They are reduced to 8 bits with Pillow's
// rounding; that of Pillow wraps at the top (1023 of 10 bits becomes black), ours does not.
#include "stoker/codecs/jpeg2000.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "stoker/base/error.h"
#include "stoker/base/memory_limit.h"
#include "stoker/codecs/j2k_header.h"
#include "stoker/codecs/j2k_planes.h"
#include "stoker/codecs/region.h"

namespace stoker {
namespace {

[[noreturn]] void refuse(std::string got) {
    throw DataError({}, {.where = "jp2", .expected = "a valid JPEG 2000", .got = std::move(got)});
}

// One channel in 8 bits.
class Channel {
  public:
    Channel(const opj_image_t& image, const opj_image_comp_t& stored)
        : stored_(stored), left_(image.x0), top_(image.y0) {
        const bool sound = stored.data != nullptr && stored.w > 0 && stored.h > 0 && stored.dx > 0 && stored.dy > 0 &&
                           stored.prec >= 1 && stored.prec <= 31;
        if (!sound) {
            refuse("a channel without samples");
        }
        shift_ = static_cast<int>(stored.prec) - 8;
        offset_ = stored.sgnd != 0 ? std::int64_t{1} << (stored.prec - 1) : 0;
        offset_ += shift_ > 0 ? std::int64_t{1} << (shift_ - 1) : 0;
    }

    bool is_subsampled() const { return stored_.dx > 1 || stored_.dy > 1; }

    int at(int y, int x) const {
        const std::uint32_t row = index(top_, y, stored_.dy, stored_.h);
        const std::uint32_t column = index(left_, x, stored_.dx, stored_.w);
        const std::int64_t value = offset_ + stored_.data[std::size_t{row} * stored_.w + column];
        return static_cast<int>(std::clamp<std::int64_t>(shift_ > 0 ? value >> shift_ : value << -shift_, 0, 255));
    }

  private:
    // The nearest sample that the reference grid has at or above this place.
    static std::uint32_t index(std::uint32_t origin, int at, std::uint32_t step, std::uint32_t size) {
        if (step == 1) {  // nearly always, and a division takes longer than all else here
            return std::min(static_cast<std::uint32_t>(at), size - 1);
        }
        const std::uint32_t first = (origin + step - 1) / step;
        const std::uint32_t sample = (origin + static_cast<std::uint32_t>(at)) / step;
        return std::min(sample - std::min(sample, first), size - 1);
    }

    const opj_image_comp_t& stored_;
    std::uint32_t left_;
    std::uint32_t top_;
    int shift_ = 0;
    std::int64_t offset_ = 0;
};

enum class Colors { grey, rgb, ycc, cmyk };

Colors colors_of(const opj_image_t& image, const std::vector<Channel>& channels) {
    if (channels.size() <= 2) {
        return Colors::grey;
    }
    const bool unknown = image.color_space == OPJ_CLRSPC_UNKNOWN || image.color_space == OPJ_CLRSPC_UNSPECIFIED;
    if (image.color_space == OPJ_CLRSPC_SYCC || (unknown && channels[1].is_subsampled())) {
        return Colors::ycc;
    }
    if (image.color_space == OPJ_CLRSPC_CMYK && channels.size() == 4) {
        return Colors::cmyk;
    }
    if (image.color_space == OPJ_CLRSPC_EYCC) {
        refuse("e-YCC colours");
    }
    return Colors::rgb;
}

using Rgb = std::array<int, 3>;

// With the integers of Pillow's conversion.
Rgb from_ycc(int y, int cb, int cr) {
    const auto part = [](double factor, int chroma) { return static_cast<int>(factor * 64 * (chroma - 128) + 0.5); };
    return {y + (part(1.402, cr) >> 6), y + ((part(-0.34414, cb) + part(-0.71414, cr)) >> 6),
            y + (part(1.772, cb) >> 6)};
}

int product_255(int a, int b) {
    const int product = a * b + 128;
    return ((product >> 8) + product) >> 8;
}

Rgb pixel(const std::vector<Channel>& channels, Colors colors, int y, int x) {
    const int first = channels[0].at(y, x);
    if (colors == Colors::grey) {
        return {first, first, first};
    }
    const int second = channels[1].at(y, x);
    const int third = channels[2].at(y, x);
    if (colors == Colors::ycc) {
        return from_ycc(first, second, third);
    }
    if (colors == Colors::cmyk) {
        const int light = 255 - channels[3].at(y, x);
        return {light - product_255(first, light), light - product_255(second, light),
                light - product_255(third, light)};
    }
    return {first, second, third};
}

}  // namespace

ImageInfo Jpeg2000Decoder::info(std::span<const std::byte> bytes) {
    const J2kHeader header = read_j2k_header(bytes);
    return {.codec = Codec::jpeg2000, .height = header.height, .width = header.width, .bits = header.bits};
}

void Jpeg2000Decoder::decode(std::span<const std::byte> bytes, RowSink& sink) {
    const J2kHeader header = read_j2k_header(bytes);
    const Box box = checked_region(sink, header.height, header.width).box;
    const MemoryClaim claim(header.memory, "a JPEG 2000");
    const J2kPlanes image = decode_j2k(bytes);
    if (image->numcomps < 1 || image->numcomps > 4 || image->x1 - image->x0 != static_cast<OPJ_UINT32>(header.width) ||
        image->y1 - image->y0 != static_cast<OPJ_UINT32>(header.height)) {
        refuse("another size than its header says");
    }
    std::vector<Channel> channels;
    for (OPJ_UINT32 c = 0; c < image->numcomps; ++c) {
        channels.emplace_back(*image, image->comps[c]);
    }
    const Colors colors = colors_of(*image, channels);
    sink.start(box.height, box.width, 3);
    for (int y = 0; y < box.height; ++y) {
        std::uint8_t* to = sink.row(y);
        for (int x = 0; x < box.width; ++x) {
            for (const int value : pixel(channels, colors, box.top + y, box.left + x)) {
                *to++ = static_cast<std::uint8_t>(std::clamp(value, 0, 255));
            }
        }
    }
    sink.finish();
}

}  // namespace stoker
