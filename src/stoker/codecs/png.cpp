// Drives libspng row by row. The file is read to its IEND chunk and every checksum counts: a PNG that
// was cut short or damaged anywhere is refused, unless only rows above the damage are wanted.
//
// 16 bits become 8 by their high byte. Pillow does the same for colour but not for grey, which it
// opens as "I;16" and whose convert("RGB") turns everything above 255 white: no picture is meant so.
#include "stoker/codecs/png.h"

#include <spng.h>

#include <cstring>
#include <fmt/format.h>
#include <memory>

#include "stoker/base/error.h"
#include "stoker/codecs/byte_order.h"
#include "stoker/codecs/check_pixels.h"
#include "stoker/codecs/exif.h"
#include "stoker/codecs/region.h"

namespace stoker {
namespace {

// Profiles and texts are unpacked by libspng although nobody asks for them: more than this in one
// file is refused.
constexpr std::size_t kMaxMetadata = std::size_t{64} << 20;

// One libspng context over bytes in memory. The bytes are handed over as a stream, which costs one
// copy of the compressed data and tells where in the file an error was found.
class PngReader {
  public:
    explicit PngReader(std::span<const std::byte> bytes) : bytes_(bytes), context_(spng_ctx_new(0), spng_ctx_free) {
        if (context_ == nullptr) {
            fail(SPNG_EMEM);
        }
        check(spng_set_crc_action(context_.get(), SPNG_CRC_ERROR, SPNG_CRC_ERROR));
        check(spng_set_chunk_limits(context_.get(), kMaxMetadata, kMaxMetadata));
        check(spng_set_png_stream(context_.get(), read, this));
        check(spng_get_ihdr(context_.get(), &header_));
        check_pixels("png", header_.height, header_.width);
    }
    PngReader(const PngReader&) = delete;
    PngReader& operator=(const PngReader&) = delete;

    int height() const { return static_cast<int>(header_.height); }
    int width() const { return static_cast<int>(header_.width); }
    bool interlaced() const { return header_.interlace_method != SPNG_INTERLACE_NONE; }

    // Makes rows [0, rows.end()) of an image that is not interlaced.
    void read_rows(RegionRows& rows) {
        start_rows();
        int status = SPNG_OK;
        for (int y = 0; y < rows.end(); ++y) {
            check(status);  // libspng says "end" with the last row already
            status = spng_decode_row(context_.get(), rows.begin(y), row_bytes());
            if (status != SPNG_EOI) {
                check(status);
            }
            rows.complete(y);
        }
        if (rows.reaches_bottom()) {
            finish(status);
        }
    }

    // All of an interlaced image, whose rows come several times.
    void read_passes(ImageView image) {
        start_rows();
        spng_row_info info{};
        int status = spng_get_row_info(context_.get(), &info);
        while (status == SPNG_OK) {
            status = spng_decode_row(context_.get(), image.row(static_cast<int>(info.row_num)), row_bytes());
            if (status == SPNG_OK) {
                status = spng_get_row_info(context_.get(), &info);
            }
        }
        finish(status);
    }

  private:
    static int read(spng_ctx* /*context*/, void* user, void* to, std::size_t size) {
        auto* self = static_cast<PngReader*>(user);
        if (size > self->bytes_.size() - self->position_) {
            return SPNG_IO_ERROR;  // not SPNG_IO_EOF, whose value libspng also uses for "skip this chunk"
        }
        std::memcpy(to, self->bytes_.data() + self->position_, size);
        self->position_ += size;
        return SPNG_OK;
    }

    std::size_t row_bytes() const { return std::size_t{3} * header_.width; }

    void start_rows() { check(spng_decode_image(context_.get(), nullptr, 0, SPNG_FMT_RGB8, SPNG_DECODE_PROGRESSIVE)); }

    // The chunks behind the pixels, when `status` says that these are complete.
    void finish(int status) {
        if (status != SPNG_EOI) {
            fail(status);
        }
        check(spng_decode_chunks(context_.get()));
    }

    void check(int status) const {
        if (status != SPNG_OK) {
            fail(status);
        }
    }

    [[noreturn]] void fail(int status) const {
        if (status == SPNG_IO_ERROR) {
            throw DataError({.path = {}, .offset = static_cast<std::int64_t>(bytes_.size())},
                            {.where = "png",
                             .expected = "a complete PNG",
                             .got = fmt::format("a truncated PNG that ends after {} bytes", bytes_.size())});
        }
        if (status == SPNG_EMEM) {
            throw IoError({.where = "host memory", .expected = "memory to decode a PNG", .got = "none"});
        }
        throw DataError({.path = {}, .offset = static_cast<std::int64_t>(position_)},
                        {.where = "png", .expected = "a valid PNG", .got = spng_strerror(status)});
    }

    std::span<const std::byte> bytes_;
    std::size_t position_ = 0;
    std::unique_ptr<spng_ctx, decltype(&spng_ctx_free)> context_;
    spng_ihdr header_{};
};

// From the eXIf chunk, which may also come behind the pixels, where libspng sees it only after decoding:
// so the chunks (length, type, data, checksum) are walked here. Checksums are left to decoding.
int orientation_in(std::span<const std::byte> bytes) {
    std::size_t chunk = 8;
    while (bytes.size() - chunk >= 12) {
        const std::size_t length = load_be(bytes, chunk, 4);
        if (length > bytes.size() - chunk - 12) {
            return 1;
        }
        if (std::memcmp(bytes.data() + chunk + 4, "eXIf", 4) == 0) {
            return exif_orientation(bytes.subspan(chunk + 8, length));
        }
        chunk += 12 + length;
    }
    return 1;
}

}  // namespace

ImageInfo PngDecoder::info(std::span<const std::byte> bytes) {
    const PngReader reader(bytes);
    return {.codec = Codec::png,
            .height = reader.height(),
            .width = reader.width(),
            .orientation = orientation_in(bytes),
            .progressive = reader.interlaced()};
}

void PngDecoder::decode(std::span<const std::byte> bytes, RowSink& sink) {
    PngReader reader(bytes);
    if (reader.interlaced()) {
        const Box box = wanted_region(sink, reader.height(), reader.width()).box;
        whole_.reset(reader.height(), reader.width(), 3);
        reader.read_passes(whole_.view());
        deliver(whole_.view().crop(box), sink);
    } else {
        RegionRows rows(sink, reader.height(), reader.width(), row_);
        reader.read_rows(rows);
    }
    sink.finish();
}

}  // namespace stoker
