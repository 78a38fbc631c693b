// Both encoders write row by row, so views with padded rows need no copy.
#include "stoker/codecs/encode.h"

#include <spng.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <fmt/format.h>
#include <memory>
#include <new>

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

// libjpeg's destination manager: a vector that doubles its size. Only the allocation can fail.
struct JpegOutput {
    jpeg_destination_mgr manager{};  // first member: libjpeg's pointer to it also points to this struct
    std::vector<std::byte> bytes;

    static JpegOutput& of(j_compress_ptr codec) { return *reinterpret_cast<JpegOutput*>(codec->dest); }

    bool grow() noexcept {
        const std::size_t used = bytes.size();
        try {
            bytes.resize(std::max<std::size_t>(2 * used, std::size_t{1} << 14));
        } catch (const std::bad_alloc&) {
            return false;  // the caller reports it, because exceptions must not unwind libjpeg's frames
        }
        manager.next_output_byte = reinterpret_cast<JOCTET*>(bytes.data() + used);
        manager.free_in_buffer = bytes.size() - used;
        return true;
    }

    static void start(j_compress_ptr codec) { static_cast<void>(more(codec)); }
    static boolean more(j_compress_ptr codec) {
        if (!of(codec).grow()) {
            JpegGuard::fail(reinterpret_cast<j_common_ptr>(codec), JpegFault::no_memory);
        }
        return TRUE;
    }
    static void finish(j_compress_ptr codec) {
        JpegOutput& output = of(codec);
        output.bytes.resize(output.bytes.size() - output.manager.free_in_buffer);  // shrinks: cannot throw
    }
};

class JpegEncoder {
  public:
    JpegEncoder() { codec_.err = guard_.manager(); }
    JpegEncoder(const JpegEncoder&) = delete;
    JpegEncoder& operator=(const JpegEncoder&) = delete;
    ~JpegEncoder() { jpeg_destroy_compress(&codec_); }

    std::vector<std::byte> encode(ConstImageView image, const JpegOptions& options) {
        if (!guard_.run([&] { write(image, options); })) {
            if (guard_.fault() == JpegFault::no_memory) {
                throw IoError({.where = "host memory", .expected = "memory to encode a JPEG", .got = "none"});
            }
            throw InternalError({.where = "encode_jpeg",
                                 .expected = "success",
                                 .got = guard_.message(reinterpret_cast<j_common_ptr>(&codec_))});
        }
        return std::move(output_.bytes);
    }

  private:
    void write(ConstImageView image, const JpegOptions& options) {
        jpeg_create_compress(&codec_);
        output_.manager.init_destination = JpegOutput::start;
        output_.manager.empty_output_buffer = JpegOutput::more;
        output_.manager.term_destination = JpegOutput::finish;
        codec_.dest = &output_.manager;
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

    JpegGuard guard_;
    jpeg_compress_struct codec_{};
    JpegOutput output_;
};

}  // namespace

std::vector<std::byte> encode_png(ConstImageView image) {
    check_image(image, "encode_png", INT32_MAX);
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
    check_image(image, "encode_jpeg", JPEG_MAX_DIMENSION);
    if (options.quality < 1 || options.quality > 100) {
        throw InvalidArgument(
            {.where = "encode_jpeg", .expected = "a quality of 1 to 100", .got = fmt::format("{}", options.quality)});
    }
    return JpegEncoder().encode(image, options);
}

}  // namespace stoker
