// Drives libjpeg row by row, straight into the sink. The source is the caller's memory, so running out
// of bytes is final: it is reported as truncation instead of being papered over with grey, as libjpeg's
// own sources do. Warnings about odd but complete data pass, as they do in Pillow.
#include "stoker/codecs/jpeg.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <iterator>

#include "stoker/base/error.h"
#include "stoker/codecs/check_pixels.h"
#include "stoker/codecs/exif.h"

namespace stoker {
namespace {

// (W, 4) CMYK to (W, 3) RGB, with Pillow's rounding. The samples are inverted (255 is no ink), which is what
// Adobe's files hold; like Pillow, every CMYK JPEG is taken to be one.
void cmyk_to_rgb(const std::uint8_t* cmyk, std::uint8_t* rgb, std::size_t width) {
    for (std::size_t x = 0; x < width; ++x, cmyk += 4, rgb += 3) {
        const int white = cmyk[3];
        for (int c = 0; c < 3; ++c) {
            const int product = (255 - cmyk[c]) * white + 128;
            const int ink = ((product >> 8) + product) >> 8;  // product / 255, rounded; at most `white`
            rgb[c] = static_cast<std::uint8_t>(white - ink);
        }
    }
}

}  // namespace

// What libjpeg calls. It may jump out of any of these, so none owns anything.
struct JpegDecoder::Callbacks {
    static j_common_ptr common(j_decompress_ptr codec) { return reinterpret_cast<j_common_ptr>(codec); }

    static void ignore(j_decompress_ptr /*codec*/) {}

    static boolean fill(j_decompress_ptr codec) { JpegGuard::fail(common(codec), JpegFault::truncated); }

    static void skip(j_decompress_ptr codec, long count) {
        if (count <= 0) {
            return;
        }
        if (static_cast<std::size_t>(count) > codec->src->bytes_in_buffer) {
            JpegGuard::fail(common(codec), JpegFault::truncated);
        }
        codec->src->next_input_byte += count;
        codec->src->bytes_in_buffer -= static_cast<std::size_t>(count);
    }

    static void watch(j_common_ptr codec) {
        if (reinterpret_cast<j_decompress_ptr>(codec)->input_scan_number > kMaxJpegScans) {
            JpegGuard::fail(codec, JpegFault::too_many_scans);
        }
    }

    // Once the object is made, libjpeg asks for permanent memory only for quantisation and Huffman tables.
    // It goes to the image's pool instead, so that no image can borrow the tables of the one before it.
    static void* alloc_small(j_common_ptr codec, int /*pool*/, std::size_t size) {
        return static_cast<JpegDecoder*>(codec->client_data)->alloc_small_(codec, JPOOL_IMAGE, size);
    }

    // APP1: the orientation, from the first EXIF block. The bytes are read where they lie.
    static boolean read_app1(j_decompress_ptr codec) {
        const std::span bytes(reinterpret_cast<const std::byte*>(codec->src->next_input_byte),
                              codec->src->bytes_in_buffer);
        if (bytes.size() < 2) {
            JpegGuard::fail(common(codec), JpegFault::truncated);
        }
        // The length counts its own two bytes. One below that is nonsense that libjpeg lets pass.
        const auto stored = std::to_integer<std::size_t>(bytes[0]) << 8 | std::to_integer<std::size_t>(bytes[1]);
        const std::size_t length = std::max<std::size_t>(stored, 2);
        if (length > bytes.size()) {
            JpegGuard::fail(common(codec), JpegFault::truncated);
        }
        auto* self = static_cast<JpegDecoder*>(codec->client_data);
        const auto block = bytes.subspan(2, length - 2);
        if (self->orientation_ == 0 && block.size() >= 6 && std::memcmp(block.data(), "Exif\0", 6) == 0) {
            self->orientation_ = exif_orientation(block);
        }
        skip(codec, static_cast<long>(length));
        return TRUE;
    }
};

// Whatever happens to an image, the object is fit for the next one afterwards.
class JpegDecoder::Session {
  public:
    explicit Session(jpeg_decompress_struct& codec) : codec_(codec) {}
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;
    ~Session() {
        jpeg_abort_decompress(&codec_);
        std::fill(std::begin(codec_.quant_tbl_ptrs), std::end(codec_.quant_tbl_ptrs), nullptr);
        std::fill(std::begin(codec_.dc_huff_tbl_ptrs), std::end(codec_.dc_huff_tbl_ptrs), nullptr);
        std::fill(std::begin(codec_.ac_huff_tbl_ptrs), std::end(codec_.ac_huff_tbl_ptrs), nullptr);
    }

  private:
    jpeg_decompress_struct& codec_;
};

JpegDecoder::JpegDecoder() {
    codec_.err = guard_.manager();
    const bool made = guard_.run([this] {
        jpeg_create_decompress(&codec_);
        jpeg_set_marker_processor(&codec_, JPEG_APP0 + 1, Callbacks::read_app1);
    });
    if (!made) {
        jpeg_destroy_decompress(&codec_);
        fail();
    }
    codec_.client_data = this;
    alloc_small_ = codec_.mem->alloc_small;
    codec_.mem->alloc_small = Callbacks::alloc_small;
    source_.init_source = Callbacks::ignore;
    source_.fill_input_buffer = Callbacks::fill;
    source_.skip_input_data = Callbacks::skip;
    source_.resync_to_restart = jpeg_resync_to_restart;
    source_.term_source = Callbacks::ignore;
    codec_.src = &source_;
    progress_.progress_monitor = Callbacks::watch;
    codec_.progress = &progress_;
}

JpegDecoder::~JpegDecoder() {
    jpeg_destroy_decompress(&codec_);
}

void JpegDecoder::read_header(std::span<const std::byte> bytes) {
    size_ = bytes.size();
    orientation_ = 0;
    source_.next_input_byte = reinterpret_cast<const JOCTET*>(bytes.data());
    source_.bytes_in_buffer = bytes.size();
    if (!guard_.run([this] { jpeg_read_header(&codec_, TRUE); })) {
        fail();
    }
    check_pixels("jpeg", codec_.image_height, codec_.image_width);
}

ImageInfo JpegDecoder::info(std::span<const std::byte> bytes) {
    const Session session(codec_);
    read_header(bytes);
    return {.codec = Codec::jpeg,
            .height = static_cast<int>(codec_.image_height),
            .width = static_cast<int>(codec_.image_width),
            .orientation = std::max(orientation_, 1),
            .progressive = codec_.progressive_mode != FALSE};
}

void JpegDecoder::decode(std::span<const std::byte> bytes, RowSink& sink) {
    const Session session(codec_);
    read_header(bytes);
    codec_.out_color_space = codec_.num_components == 4 ? JCS_CMYK : JCS_RGB;
    codec_.dct_method = JDCT_ISLOW;
    codec_.do_fancy_upsampling = TRUE;
    if (!guard_.run([this] { jpeg_start_decompress(&codec_); })) {
        fail();
    }
    sink.start(static_cast<int>(codec_.output_height), static_cast<int>(codec_.output_width), 3);
    read_rows(sink);
    // Reads on to the end marker, so a file cut short behind its last row is noticed too.
    if (!guard_.run([this] { jpeg_finish_decompress(&codec_); })) {
        fail();
    }
    sink.finish();
}

void JpegDecoder::read_rows(RowSink& sink) {
    const bool cmyk = codec_.out_color_space == JCS_CMYK;
    if (cmyk) {
        cmyk_.resize(std::size_t{4} * codec_.output_width);
    }
    while (codec_.output_scanline < codec_.output_height) {
        std::uint8_t* row = sink.row(static_cast<int>(codec_.output_scanline));
        JSAMPROW target = cmyk ? cmyk_.data() : row;
        if (!guard_.run([this, &target] { jpeg_read_scanlines(&codec_, &target, 1); })) {
            fail();
        }
        if (cmyk) {
            cmyk_to_rgb(cmyk_.data(), row, codec_.output_width);
        }
    }
}

void JpegDecoder::fail() {
    const DataPlace place = {.path = {}, .offset = static_cast<std::int64_t>(size_ - source_.bytes_in_buffer)};
    switch (guard_.fault()) {
        case JpegFault::truncated:
            throw DataError({.path = {}, .offset = static_cast<std::int64_t>(size_)},
                            {.where = "jpeg",
                             .expected = "a complete JPEG",
                             .got = fmt::format("a truncated JPEG that ends after {} bytes", size_)});
        case JpegFault::too_many_scans:
            throw DataError(
                place,
                {.where = "jpeg", .expected = fmt::format("a JPEG of at most {} scans", kMaxJpegScans), .got = "more"});
        case JpegFault::no_memory:
            throw IoError({.where = "host memory", .expected = "memory to decode a JPEG", .got = "none"});
        default:
            throw DataError(place, {.where = "jpeg",
                                    .expected = "a valid JPEG",
                                    .got = guard_.message(reinterpret_cast<j_common_ptr>(&codec_))});
    }
}

}  // namespace stoker
