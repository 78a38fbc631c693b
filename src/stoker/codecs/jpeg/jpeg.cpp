// Ordinary files go through our own Huffman decoder and pixel stage, all others (progressive, arithmetic, CMYK,
// damaged) through libjpeg, row by row. Both give the same pixels.
#include "stoker/codecs/jpeg/jpeg.h"

#include "stoker/codecs/jpeg/jpeg_blocks.h"

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

ImageInfo JpegDecoder::info(std::span<const std::byte> bytes) {
    const JpegReader::Session session(reader_, bytes);
    return reader_.info();
}

void JpegDecoder::decode(std::span<const std::byte> bytes, RowSink& sink) {
    const JpegReader::Session session(reader_, bytes);
    const jpeg_decompress_struct& codec = reader_.codec();
    const Region region =
        wanted_region(sink, static_cast<int>(codec.image_height), static_cast<int>(codec.image_width));
    if (!draw(region, sink)) {
        KnownRegion known(region, sink);
        decode_rows(known);
    }
    sink.finish();
}

void JpegDecoder::decode_reference(std::span<const std::byte> bytes, RowSink& sink) {
    const JpegReader::Session session(reader_, bytes);
    decode_rows(sink);
    sink.finish();
}

// Whatever is odd about a file shows before or while it is drawn. libjpeg then begins anew, and says what it is.
bool JpegDecoder::draw(const Region& region, RowSink& sink) {
    const jpeg_decompress_struct& codec = reader_.codec();
    if (!read_frame(codec, frame_) || !read_quant_tables(codec, frame_)) {
        return false;
    }
    try {
        if (!huffman_.open(codec, frame_, reader_.rest())) {
            return false;
        }
        pixels_.draw(frame_, huffman_, region, sink);
        if (region.box.top + region.box.height == frame_.height) {
            huffman_.finish();
        }
        return true;
    } catch (const HuffmanDamage&) {
        return false;
    }
}

void JpegDecoder::decode_rows(RowSink& sink) {
    jpeg_decompress_struct& codec = reader_.codec();
    const bool cmyk = codec.num_components == 4;
    codec.out_color_space = cmyk ? JCS_CMYK : JCS_RGB;
    codec.dct_method = JDCT_ISLOW;
    codec.do_fancy_upsampling = TRUE;
    reader_.run([&codec] { jpeg_start_decompress(&codec); });
    if (cmyk) {
        cmyk_.resize(std::size_t{4} * codec.output_width);
    }
    RegionRows rows(sink, static_cast<int>(codec.output_height), static_cast<int>(codec.output_width), row_);
    for (int y = 0; y < rows.end(); ++y) {
        std::uint8_t* row = rows.begin(y);
        JSAMPROW target = cmyk ? cmyk_.data() : row;
        reader_.run([&codec, &target] { jpeg_read_scanlines(&codec, &target, 1); });
        if (cmyk) {
            cmyk_to_rgb(cmyk_.data(), row, codec.output_width);
        }
        rows.complete(y);
    }
    // Reads on to the end marker, so a file cut short behind its last row is noticed too; not where rows
    // below the region were left out.
    if (rows.reaches_bottom()) {
        reader_.run([&codec] { jpeg_finish_decompress(&codec); });
    }
}

}  // namespace stoker
