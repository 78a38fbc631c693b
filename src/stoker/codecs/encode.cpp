// Both encoders write row by row, so views with padded rows need no copy.
#include "stoker/codecs/encode.h"

#include <spng.h>

#include <cstdint>
#include <cstdlib>
#include <fmt/format.h>
#include <memory>

#include "stoker/base/error.h"
#include "stoker/codecs/jpeg/jpeg_guard.h"

namespace stoker {
namespace {

void check_image(ConstImageView image, const char* where, int max_side) {
    if ((image.channels != 1 && image.channels != 3) || image.height < 1 || image.width < 1 ||
        image.height > max_side || image.width > max_side) {
        throw InvalidArgument(
            {.where = where,
             .expected = fmt::format("an image of 1 or 3 channels with sides of 1 to {} pixels", max_side),
             .got = fmt::format("(H, W, C) = ({}, {}, {})", image.height, image.width, image.channels)});
    }
}

void check_png(int status) {
    if (status != SPNG_OK) {
        throw InternalError({.where = "encode_png", .expected = "success", .got = spng_strerror(status)});
    }
}

class JpegEncoder {
  public:
    JpegEncoder() { codec_.err = guard_.manager(); }
    JpegEncoder(const JpegEncoder&) = delete;
    JpegEncoder& operator=(const JpegEncoder&) = delete;
    ~JpegEncoder() {
        if (codec_.dest != nullptr) {
            codec_.dest->term_destination(&codec_);  // sets data_ to the current buffer, also after a failure
        }
        if (data_ != first_.get()) {
            std::free(data_);
        }
        jpeg_destroy_compress(&codec_);
    }

    std::vector<std::byte> encode(ConstImageView image, const JpegOptions& options) {
        if (!guard_.run([&] { write(image, options); })) {
            if (guard_.fault() == JpegFault::no_memory) {
                throw IoError({.where = "host memory", .expected = "memory to encode a JPEG", .got = "none"});
            }
            throw InternalError({.where = "encode_jpeg",
                                 .expected = "success",
                                 .got = guard_.message(reinterpret_cast<j_common_ptr>(&codec_))});
        }
        const auto* bytes = reinterpret_cast<const std::byte*>(data_);
        return {bytes, bytes + size_};
    }

  private:
    void write(ConstImageView image, const JpegOptions& options) {
        jpeg_create_compress(&codec_);
        jpeg_mem_dest(&codec_, &data_, &size_);
        codec_.image_height = static_cast<JDIMENSION>(image.height);
        codec_.image_width = static_cast<JDIMENSION>(image.width);
        codec_.input_components = image.channels;
        codec_.in_color_space = image.channels == 3 ? JCS_RGB : JCS_GRAYSCALE;
        jpeg_set_defaults(&codec_);
        jpeg_set_quality(&codec_, options.quality, TRUE);
        codec_.comp_info[0].h_samp_factor = options.chroma_420 && image.channels == 3 ? 2 : 1;
        codec_.comp_info[0].v_samp_factor = codec_.comp_info[0].h_samp_factor;
        if (options.progressive) {
            jpeg_simple_progression(&codec_);
        }
        jpeg_start_compress(&codec_, TRUE);
        for (int y = 0; y < image.height; ++y) {
            JSAMPROW row = const_cast<JSAMPROW>(image.row(y));  // libjpeg only reads it
            jpeg_write_scanlines(&codec_, &row, 1);
        }
        jpeg_finish_compress(&codec_);
    }

    static constexpr unsigned long kFirstSize = 64 * 1024;

    JpegGuard guard_;
    jpeg_compress_struct codec_{};
    // jpeg_mem_dest begins with this buffer, so that codec_.dest points to a valid buffer from the start.
    std::unique_ptr<unsigned char[]> first_ = std::make_unique_for_overwrite<unsigned char[]>(kFirstSize);
    unsigned char* data_ = first_.get();  // or a larger buffer from malloc, set by term_destination
    unsigned long size_ = kFirstSize;
};

}  // namespace

std::vector<std::byte> encode_png(ConstImageView image, std::string software) {
    check_image(image, "PNG", INT32_MAX);
    const std::unique_ptr<spng_ctx, decltype(&spng_ctx_free)> context(spng_ctx_new(SPNG_CTX_ENCODER), spng_ctx_free);
    if (context == nullptr) {
        throw IoError({.where = "host memory", .expected = "memory to encode a PNG", .got = "none"});
    }
    spng_ihdr header{};
    header.height = static_cast<std::uint32_t>(image.height);
    header.width = static_cast<std::uint32_t>(image.width);
    header.bit_depth = 8;
    header.color_type = image.channels == 3 ? SPNG_COLOR_TYPE_TRUECOLOR : SPNG_COLOR_TYPE_GRAYSCALE;
    check_png(spng_set_ihdr(context.get(), &header));
    spng_text text{};
    if (!software.empty()) {
        constexpr std::string_view kKeyword = "Software";
        kKeyword.copy(text.keyword, kKeyword.size());
        text.type = SPNG_TEXT;
        text.length = software.size();
        text.text = software.data();
        check_png(spng_set_text(context.get(), &text, 1));
    }
    check_png(spng_set_option(context.get(), SPNG_ENCODE_TO_BUFFER, 1));
    check_png(
        spng_encode_image(context.get(), nullptr, 0, SPNG_FMT_PNG, SPNG_ENCODE_PROGRESSIVE | SPNG_ENCODE_FINALIZE));
    for (int y = 0; y < image.height; ++y) {
        const int status = spng_encode_row(context.get(), image.row(y), image.row_bytes());
        check_png(status == SPNG_EOI && y == image.height - 1 ? static_cast<int>(SPNG_OK) : status);
    }
    std::size_t size = 0;
    int status = SPNG_OK;
    const std::unique_ptr<void, decltype(&std::free)> data(spng_get_png_buffer(context.get(), &size, &status),
                                                           std::free);
    check_png(status);
    const auto* bytes = static_cast<const std::byte*>(data.get());
    return {bytes, bytes + size};
}

std::vector<std::byte> encode_jpeg(ConstImageView image, const JpegOptions& options) {
    check_image(image, "JPEG", JPEG_MAX_DIMENSION);
    if (options.quality < 1 || options.quality > 100) {
        throw InvalidArgument(
            {.where = "encode_jpeg", .expected = "a quality of 1 to 100", .got = fmt::format("{}", options.quality)});
    }
    return JpegEncoder().encode(image, options);
}

}  // namespace stoker
