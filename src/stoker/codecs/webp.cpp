// libwebp decodes only the requested box, into our memory. Lossy files store chroma at half size, and libwebp
// interpolates it, so we decode a margin, too: without it the box's edges would differ from the whole image.
#include "stoker/codecs/decoders.h"

#include <webp/decode.h>

#include <algorithm>
#include <cstring>

#include "stoker/base/error.h"
#include "stoker/codecs/byte_order.h"
#include "stoker/codecs/orientation.h"
#include "stoker/codecs/region.h"

namespace stoker {
namespace {

constexpr std::size_t kRiffHeader = 12;  // "RIFF", size of what follows (4 bytes), "WEBP"

const std::uint8_t* data_of(std::span<const std::byte> bytes) {
    return reinterpret_cast<const std::uint8_t*>(bytes.data());
}

const char* describe(VP8StatusCode status) {
    switch (status) {
        case VP8_STATUS_BITSTREAM_ERROR:
            return "a damaged bit stream";
        case VP8_STATUS_UNSUPPORTED_FEATURE:
            return "a feature that libwebp does not support";
        default:
            return "data that libwebp cannot read";
    }
}

void check_status(VP8StatusCode status, std::size_t size) {
    switch (status) {
        case VP8_STATUS_OK:
            return;
        case VP8_STATUS_NOT_ENOUGH_DATA:
        case VP8_STATUS_SUSPENDED:
            throw_truncated("webp", "WebP", size);
        case VP8_STATUS_OUT_OF_MEMORY:
            throw IoError({.where = "host memory", .expected = "memory to decode a WebP", .got = "none"});
        default:
            throw DataError({}, {.where = "webp", .expected = "a valid WebP", .got = describe(status)});
    }
}

WebPBitstreamFeatures read_header(std::span<const std::byte> bytes) {
    if (bytes.size() < kRiffHeader || bytes.size() - 8 < load_le(bytes, 4, 4)) {
        throw_truncated("webp", "WebP", bytes.size());
    }
    WebPBitstreamFeatures header{};
    check_status(WebPGetFeatures(data_of(bytes), bytes.size(), &header), bytes.size());
    check_image_size("webp", header.height, header.width);
    if (header.has_animation != 0) {
        throw DataError({}, {.where = "webp",
                             .expected = "one still image",
                             .got = "an animated WebP",
                             .hint = "save the frame that you need as a separate file"});
    }
    return header;
}

// Reads the EXIF chunk. A chunk is a name, a size and its bytes, padded to an even number.
int orientation_in(std::span<const std::byte> bytes) {
    std::size_t chunk = kRiffHeader;
    while (chunk <= bytes.size() && bytes.size() - chunk >= 8) {
        const std::size_t size = load_le(bytes, chunk + 4, 4);
        if (size > bytes.size() - chunk - 8) {
            return 1;
        }
        if (std::memcmp(bytes.data() + chunk, "EXIF", 4) == 0) {
            return exif_orientation(bytes.subspan(chunk + 8, size));
        }
        chunk += 8 + size + size % 2;
    }
    return 1;
}

// The box with a margin of two pixels, which is one chroma sample. It begins at even coordinates, because libwebp
// rounds them down to even numbers.
Box with_margin(const Box& box, int height, int width) {
    const int top = std::max(box.top - 2, 0) & ~1;
    const int left = std::max(box.left - 2, 0) & ~1;
    return {.top = top,
            .left = left,
            .height = std::min(box.top + box.height + 2, height) - top,
            .width = std::min(box.left + box.width + 2, width) - left};
}

}  // namespace

ImageInfo WebpDecoder::info(std::span<const std::byte> bytes) {
    const WebPBitstreamFeatures header = read_header(bytes);
    return {.codec = Codec::webp, .height = header.height, .width = header.width, .orientation = orientation_in(bytes)};
}

void WebpDecoder::decode(std::span<const std::byte> bytes, RowSink& sink) {
    const WebPBitstreamFeatures header = read_header(bytes);
    const Box box = checked_region(sink, header.height, header.width).box;
    const Box decoded = with_margin(box, header.height, header.width);
    pixels_.reset(decoded.height, decoded.width, 3);

    WebPDecoderConfig config;
    if (WebPInitDecoderConfig(&config) == 0) {
        throw InternalError(
            {.where = "webp", .expected = "the libwebp version that Stoker was built with", .got = "another version"});
    }
    config.options.use_cropping = decoded.height < header.height || decoded.width < header.width ? 1 : 0;
    config.options.crop_top = decoded.top;
    config.options.crop_left = decoded.left;
    config.options.crop_height = decoded.height;
    config.options.crop_width = decoded.width;
    config.output.colorspace = MODE_RGB;
    config.output.is_external_memory = 1;
    config.output.u.RGBA = {.rgba = pixels_.view().data, .stride = decoded.width * 3, .size = pixels_.bytes()};
    const VP8StatusCode status = WebPDecode(data_of(bytes), bytes.size(), &config);
    WebPFreeDecBuffer(&config.output);
    check_status(status, bytes.size());

    const Box inner{
        .top = box.top - decoded.top, .left = box.left - decoded.left, .height = box.height, .width = box.width};
    write_image(pixels_.view().crop(inner), sink);
    sink.finish();
}

}  // namespace stoker
