// Baseline files go through HuffmanReader and BlockDecoder; all others (progressive, arithmetic, CMYK, damaged) through
// libjpeg. Both return the same pixels.
#include "stoker/codecs/jpeg/jpeg.h"

#include "stoker/codecs/jpeg/jpeg_blocks.h"

namespace stoker {
namespace {

// (W, 4) CMYK to (W, 3) RGB, with Pillow's rounding. Like Pillow, we treat the samples of every CMYK JPEG as inverted
// (255 means without ink), as Adobe writes them.
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

void JpegDecoder::decode(std::span<const std::byte> bytes, RowSink& sink, EntryPointSlot* points) {
    huffman_.take_time();  // of an image that failed
    const JpegReader::Session session(reader_, bytes);
    const Region region = checked_region(sink, reader_.info().height, reader_.info().width);
    const bool known = points != nullptr && !points->known.points.empty();
    if (points != nullptr) {
        points->grown = false;
    }
    bool decoded = decode_baseline(region, sink, points);
    if (!decoded && points != nullptr) {  // known ones may be those of other bytes, or damaged
        points->known = {};
        points->grown = known;
        decoded = known && decode_baseline(region, sink, nullptr);
    }
    if (!decoded) {
        decode_with_libjpeg(region.box, sink);
    } else if (known && points->grown && points->complete && !points->known.points.empty()) {
        complete(*points);
    }
    sink.finish();
}

// Damage in rows that are not wanted is not an error.
void JpegDecoder::complete(EntryPointSlot& points) {
    const EntryPoints before = points.known;
    try {
        huffman_.complete_points();
    } catch (const HuffmanError&) {
        points.known = before;
    }
}

void JpegDecoder::decode_reference(std::span<const std::byte> bytes, RowSink& sink) {
    const JpegReader::Session session(reader_, bytes);
    decode_with_libjpeg(checked_region(sink, reader_.info().height, reader_.info().width).box, sink);
    sink.finish();
}

void JpegDecoder::find_points(std::span<const std::byte> bytes, EntryPointSlot& points) {
    const JpegReader::Session session(reader_, bytes);
    points.grown = false;
    try {
        if (open_baseline(&points)) {
            huffman_.complete_points();
        }
    } catch (const HuffmanError&) {
        points.known = {};
    }
}

// Returns false for files that libjpeg must decode. Throws HuffmanError.
bool JpegDecoder::open_baseline(EntryPointSlot* points) {
    const jpeg_decompress_struct& codec = reader_.codec();
    return read_frame(codec, frame_) && read_quant_tables(codec, frame_) &&
           huffman_.open(codec, frame_, reader_.rest(), points);
}

// Returns false for files that libjpeg must decode. The sink may have received rows by then; libjpeg starts it again.
bool JpegDecoder::decode_baseline(const Region& region, RowSink& sink, EntryPointSlot* points) {
    try {
        if (!open_baseline(points)) {
            return false;
        }
        pixels_.decode(frame_, huffman_, region, sink);
        if (region.box.top + region.box.height == frame_.height) {
            huffman_.finish();
        }
        return true;
    } catch (const HuffmanError&) {
        return false;
    }
}

void JpegDecoder::decode_with_libjpeg(const Box& box, RowSink& sink) {
    jpeg_decompress_struct& codec = reader_.codec();
    const bool cmyk = codec.num_components == 4;
    if (jpeg_has_multiple_scans(&codec) != FALSE) {
        reader_.claim_coefficients();
    }
    codec.out_color_space = cmyk ? JCS_CMYK : JCS_RGB;
    codec.dct_method = JDCT_ISLOW;
    codec.do_fancy_upsampling = TRUE;
    reader_.run([&codec] { jpeg_start_decompress(&codec); });
    reader_.end_claim();
    if (cmyk) {
        cmyk_.resize(std::size_t{4} * codec.output_width);
    }
    RegionRows rows(sink, box, static_cast<int>(codec.output_height), static_cast<int>(codec.output_width), row_);
    for (int y = 0; y < rows.end(); ++y) {
        std::uint8_t* row = rows.begin(y);
        JSAMPROW target = cmyk ? cmyk_.data() : row;
        reader_.run([&codec, &target] { jpeg_read_scanlines(&codec, &target, 1); });
        if (cmyk) {
            cmyk_to_rgb(cmyk_.data(), row, codec.output_width);
        }
        rows.complete(y);
    }
    // Reads up to the end marker, to detect truncation after the last row. Not if rows below the region were skipped.
    if (rows.reaches_bottom()) {
        reader_.run([&codec] { jpeg_finish_decompress(&codec); });
    }
}

}  // namespace stoker
