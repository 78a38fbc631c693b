// libwebp decodes only the requested box, into our memory. Lossy files store chroma at half size, and libwebp
// interpolates it, so we also decode a margin: without it the box's edges would differ from the whole image. The first
// frame of an animation is a separate stream inside a chunk "ANMF", which libwebp decodes as it decodes a still image.
#include "stoker/codecs/decoders.h"

#include <webp/decode.h>

#include <algorithm>
#include <cstring>
#include <fmt/format.h>

#include "stoker/base/error.h"
#include "stoker/base/memory_limit.h"
#include "stoker/codecs/byte_order.h"
#include "stoker/codecs/orientation.h"
#include "stoker/codecs/region.h"

namespace stoker {
namespace {

constexpr int kLossless = 2;             // WebPBitstreamFeatures::format
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

WebPBitstreamFeatures features_of(std::span<const std::byte> bytes, std::size_t file_size) {
    WebPBitstreamFeatures features{};
    check_status(WebPGetFeatures(data_of(bytes), bytes.size(), &features), file_size);
    return features;
}

// The chunk `name` with its header of 8 bytes (name and size), or nothing.
std::span<const std::byte> find_chunk(std::span<const std::byte> bytes, const char* name) {
    std::size_t chunk = kRiffHeader;
    while (chunk <= bytes.size() && bytes.size() - chunk >= 8) {
        const std::size_t size = load_le(bytes, chunk + 4, 4);
        if (size > bytes.size() - chunk - 8) {
            break;
        }
        if (std::memcmp(bytes.data() + chunk, name, 4) == 0) {
            return bytes.subspan(chunk, 8 + size);
        }
        chunk += 8 + size + size % 2;
    }
    return {};
}

// A still image, or the first frame of an animation on its canvas.
struct Picture {
    int height = 0;  // of the canvas
    int width = 0;
    Box frame;
    std::span<const std::byte> stream;  // what libwebp decodes
};

Picture first_frame(std::span<const std::byte> bytes, int height, int width) {
    constexpr std::size_t kFrameHeader =
        16;  // left / 2, top / 2, width - 1, height - 1, duration (3 bytes each), flags
    const std::span<const std::byte> chunk = find_chunk(bytes, "ANMF");
    if (chunk.size() < 8 + kFrameHeader) {
        throw DataError({}, {.where = "webp", .expected = "an animation with a first frame", .got = "none"});
    }
    const auto number = [&](std::size_t index) { return static_cast<int>(load_le(chunk, 8 + 3 * index, 3)); };
    const Box frame{.top = 2 * number(1), .left = 2 * number(0), .height = 1 + number(3), .width = 1 + number(2)};
    const std::span<const std::byte> stream = chunk.subspan(8 + kFrameHeader);
    const WebPBitstreamFeatures features = features_of(stream, bytes.size());
    if (features.height != frame.height || features.width != frame.width || frame.top > height - frame.height ||
        frame.left > width - frame.width) {
        throw DataError({}, {.where = "webp",
                             .expected = fmt::format("a first frame within {} x {} pixels", width, height),
                             .got = fmt::format("one of {} x {} at ({}, {}) with an image of {} x {}", frame.width,
                                                frame.height, frame.left, frame.top, features.width, features.height)});
    }
    return {.height = height, .width = width, .frame = frame, .stream = stream};
}

Picture read_picture(std::span<const std::byte> bytes, bool first_frames) {
    if (bytes.size() < kRiffHeader || bytes.size() - 8 < load_le(bytes, 4, 4)) {
        throw_truncated("webp", "WebP", bytes.size());
    }
    const WebPBitstreamFeatures header = features_of(bytes, bytes.size());
    check_image_size("webp", header.height, header.width);
    if (header.has_animation == 0) {
        return {.height = header.height,
                .width = header.width,
                .frame = {0, 0, header.height, header.width},
                .stream = bytes};
    }
    if (!first_frames) {
        throw DataError({}, {.where = "webp",
                             .expected = "one still image",
                             .got = "an animated WebP",
                             .hint = "data.first_frame = true, or packing with --first-frame, reads its first "
                                     "frame; or save the frame that you need as a separate file"});
    }
    return first_frame(bytes, header.height, header.width);
}

int orientation_in(std::span<const std::byte> bytes) {
    const std::span<const std::byte> chunk = find_chunk(bytes, "EXIF");
    return chunk.empty() ? 1 : exif_orientation(chunk.subspan(8));
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

// Decodes the box of a (height, width) stream into `pixels`, with a margin. Returns the box within `pixels`.
Box decode_box(std::span<const std::byte> stream, const Box& box, int height, int width, Image& pixels) {
    const Box decoded = with_margin(box, height, width);
    pixels.reset(decoded.height, decoded.width, 3);
    WebPDecoderConfig config;
    if (WebPInitDecoderConfig(&config) == 0) {
        throw InternalError(
            {.where = "webp", .expected = "the libwebp version that Stoker was built with", .got = "another version"});
    }
    config.options.use_cropping = decoded.height < height || decoded.width < width ? 1 : 0;
    config.options.crop_top = decoded.top;
    config.options.crop_left = decoded.left;
    config.options.crop_height = decoded.height;
    config.options.crop_width = decoded.width;
    config.output.colorspace = MODE_RGB;
    config.output.is_external_memory = 1;
    config.output.u.RGBA = {.rgba = pixels.view().data, .stride = decoded.width * 3, .size = pixels.bytes()};
    // libwebp holds a lossless image as 4 bytes per pixel.
    const bool lossless = features_of(stream, stream.size()).format == kLossless;
    const MemoryClaim claim(
        lossless ? std::uint64_t{4} * static_cast<std::uint64_t>(width) * static_cast<std::uint64_t>(height) : 0);
    const VP8StatusCode status = WebPDecode(data_of(stream), stream.size(), &config);
    WebPFreeDecBuffer(&config.output);
    check_status(status, stream.size());
    return {.top = box.top - decoded.top, .left = box.left - decoded.left, .height = box.height, .width = box.width};
}

// The part of `box` that lies within `frame`; height or width is 0 or less if there is none.
Box intersection(const Box& box, const Box& frame) {
    const int top = std::max(box.top, frame.top);
    const int left = std::max(box.left, frame.left);
    return {.top = top,
            .left = left,
            .height = std::min(box.top + box.height, frame.top + frame.height) - top,
            .width = std::min(box.left + box.width, frame.left + frame.width) - left};
}

}  // namespace

ImageInfo WebpDecoder::info(std::span<const std::byte> bytes) {
    const Picture picture = read_picture(bytes, first_frames_);
    return {
        .codec = Codec::webp, .height = picture.height, .width = picture.width, .orientation = orientation_in(bytes)};
}

void WebpDecoder::decode(std::span<const std::byte> bytes, RowSink& sink) {
    const Picture picture = read_picture(bytes, first_frames_);
    const Box& frame = picture.frame;
    const Box box = checked_region(sink, picture.height, picture.width).box;
    const Box part = intersection(box, frame);
    Box inner;
    if (part.height > 0 && part.width > 0) {
        const Box in_frame{part.top - frame.top, part.left - frame.left, part.height, part.width};
        inner = decode_box(picture.stream, in_frame, frame.height, frame.width, pixels_);
    }
    if (part == box) {
        write_image(pixels_.view().crop(inner), sink);
    } else {
        canvas_.reset(box.height, box.width, 3);
        std::memset(canvas_.view().data, 0, canvas_.bytes());
        if (inner.height > 0) {
            const Box to{part.top - box.top, part.left - box.left, part.height, part.width};
            copy_pixels(pixels_.view().crop(inner), canvas_.view().crop(to));
        }
        write_image(canvas_.view(), sink);
    }
    sink.finish();
}

}  // namespace stoker
