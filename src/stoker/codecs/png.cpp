// Runs libspng row by row, up to the IEND chunk, and checks every checksum. So a PNG that is truncated or damaged
// anywhere is refused, unless only rows above the damage are needed.
//
// 16 bits are reduced to their high byte. Pillow does the same for colour, but opens 16-bit grey as "I;16", and its
// convert("RGB") turns all values above 255 white, which is never what the picture shows.
#include "stoker/codecs/decoders.h"

#include <spng.h>

#include <cstring>
#include <memory>
#include <string>

#include "stoker/base/error.h"
#include "stoker/base/memory_limit.h"
#include "stoker/codecs/byte_order.h"
#include "stoker/codecs/orientation.h"
#include "stoker/codecs/region.h"

namespace stoker {
namespace {

// libspng decompresses colour profiles and texts, although we do not use them. Files with more bytes of these are
// refused.
constexpr std::size_t kMaxMetadata = std::size_t{64} << 20;

// One libspng context over bytes in memory. libspng reads them as a stream: that costs one copy of the compressed
// data, but gives the offset of an error.
class PngReader {
  public:
    explicit PngReader(std::span<const std::byte> bytes, bool indices = false, bool deep = false)
        : bytes_(bytes), indices_(indices), deep_(deep), context_(spng_ctx_new(0), spng_ctx_free) {
        if (context_ == nullptr) {
            fail(SPNG_EMEM);
        }
        check(spng_set_crc_action(context_.get(), SPNG_CRC_ERROR, SPNG_CRC_ERROR));
        check(spng_set_chunk_limits(context_.get(), kMaxMetadata, kMaxMetadata));
        check(spng_set_png_stream(context_.get(), read, this));
        check(spng_get_ihdr(context_.get(), &header_));
        check_image_size("png", header_.height, header_.width);
        const int type = header_.color_type;
        // Alpha says nothing about the class. Of 16 bits it would not fit into a row of the result.
        const bool alpha = type == SPNG_COLOR_TYPE_GRAYSCALE_ALPHA && header_.bit_depth == 8;
        samples_ = alpha ? 2 : 1;
        if (indices && !alpha && type != SPNG_COLOR_TYPE_GRAYSCALE && type != SPNG_COLOR_TYPE_INDEXED) {
            throw DataError({}, {.where = "mask",
                                 .expected = "a PNG of class indices: grey or with a palette",
                                 .got = type == SPNG_COLOR_TYPE_GRAYSCALE_ALPHA ? "grey of 16 bits with alpha" : "RGB",
                                 .hint = "save the index of each pixel's class, not its colour"});
        }
        packed_.resize(indices ? row_bytes() : 0);
    }
    PngReader(const PngReader&) = delete;
    PngReader& operator=(const PngReader&) = delete;

    int height() const { return static_cast<int>(header_.height); }
    int width() const { return static_cast<int>(header_.width); }
    int bits() const { return header_.bit_depth > 8 ? 16 : 8; }
    bool interlaced() const { return header_.interlace_method != SPNG_INTERLACE_NONE; }

    // Decodes rows [0, rows.end()) of an image that is not interlaced.
    void read_rows(RegionRows& rows) {
        start_rows();
        int status = SPNG_OK;
        for (int y = 0; y < rows.end(); ++y) {
            check(status);  // libspng returns SPNG_EOI with the last row
            std::uint8_t* const row = rows.begin(y);
            status = spng_decode_row(context_.get(), indices_ ? packed_.data() : row, row_bytes());
            if (status != SPNG_EOI) {
                check(status);
            }
            if (indices_) {
                unpack(row);
            }
            rows.complete(y);
        }
        if (rows.reaches_bottom()) {
            finish(status);
        }
    }

    // Decodes an interlaced image, whose rows arrive in several passes.
    void read_passes(ImageView image) {
        for (int y = 0; indices_ && y < height(); ++y) {
            std::memset(image.row(y), 0, row_bytes());  // libspng sets single bits of packed indices
        }
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
        for (int y = 0; indices_ && y < height(); ++y) {
            std::memcpy(packed_.data(), image.row(y), row_bytes());
            unpack(image.row(y));
        }
    }

    // Calls take(y, row) for each row of an image that is not interlaced, from the top; `row` has row_bytes().
    template <typename Take>
    void read_deep(std::vector<std::uint8_t>& row, Take take) {
        row.resize(row_bytes());
        start_rows();
        int status = SPNG_OK;
        for (int y = 0; y < height(); ++y) {
            check(status);
            status = spng_decode_row(context_.get(), row.data(), row_bytes());
            if (status != SPNG_EOI) {
                check(status);
            }
            take(y, row.data());
        }
        finish(status);
    }

  private:
    static int read(spng_ctx* /*context*/, void* user, void* to, std::size_t size) {
        auto* self = static_cast<PngReader*>(user);
        if (size > self->bytes_.size() - self->position_) {
            return SPNG_IO_ERROR;  // not SPNG_IO_EOF: libspng uses the same value for "skip this chunk"
        }
        std::memcpy(to, self->bytes_.data() + self->position_, size);
        self->position_ += size;
        return SPNG_OK;
    }

    std::size_t row_bytes() const {
        return indices_ ? (std::size_t{header_.width} * samples_ * header_.bit_depth + 7) / 8
                        : std::size_t{deep_ ? 8U : 3U} * header_.width;
    }

    void start_rows() {
        const int format = indices_ ? SPNG_FMT_PNG : deep_ ? SPNG_FMT_RGBA16 : SPNG_FMT_RGB8;
        check(spng_decode_image(context_.get(), nullptr, 0, format, SPNG_DECODE_PROGRESSIVE));
    }

    // Writes the indices of packed_ to (width, 3). Those of less than 8 bits begin at a byte's highest bit, those of 16
    // bits are in the host's byte order.
    void unpack(std::uint8_t* row) const {
        const std::size_t bits = header_.bit_depth;
        for (std::size_t x = 0; x < header_.width; ++x) {
            std::uint16_t index = 0;
            if (bits == 16) {
                std::memcpy(&index, packed_.data() + 2 * x, 2);
            } else {
                const std::size_t at = x * samples_ * bits;
                const std::size_t shift = 8 - bits - at % 8;
                index = static_cast<std::uint16_t>(packed_[at / 8] >> shift & ((1U << bits) - 1));
            }
            if (index > 255) {
                throw DataError({},
                                {.where = "mask", .expected = "class indices up to 255", .got = std::to_string(index)});
            }
            std::memset(row + 3 * x, index, 3);
        }
    }

    // Reads the chunks after the pixels. `status` is that of the last row.
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
            throw_truncated("png", "PNG", bytes_.size());
        }
        if (status == SPNG_EMEM) {
            throw IoError({.where = "host memory", .expected = "memory to decode a PNG", .got = "none"});
        }
        throw DataError({.path = {}, .offset = static_cast<std::int64_t>(position_)},
                        {.where = "png", .expected = "a valid PNG", .got = spng_strerror(status)});
    }

    std::span<const std::byte> bytes_;
    bool indices_;
    bool deep_;                         // rows are of RGBA in 16 bits
    std::size_t samples_ = 1;           // of a pixel, with `indices_`
    std::vector<std::uint8_t> packed_;  // one row of indices as stored
    std::size_t position_ = 0;
    std::unique_ptr<spng_ctx, decltype(&spng_ctx_free)> context_;
    spng_ihdr header_{};
};

// Reads the eXIf chunk. It may follow the pixels, and libspng would then find it only after decoding, so this walks the
// chunks (length, type, data, checksum) itself. decode() checks the checksums.
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
            .progressive = reader.interlaced(),
            .bits = reader.bits()};
}

void PngDecoder::decode(std::span<const std::byte> bytes, RowSink& sink, bool indices) {
    PngReader reader(bytes, indices);
    const Box box = checked_region(sink, reader.height(), reader.width()).box;
    if (reader.interlaced()) {
        interlaced_.reset(reader.height(), reader.width(), 3);
        reader.read_passes(interlaced_.view());
        write_image(interlaced_.view().crop(box), sink);
    } else {
        RegionRows rows(sink, box, reader.height(), reader.width(), row_);
        reader.read_rows(rows);
    }
    sink.finish();
}

void PngDecoder::decode_deep(std::span<const std::byte> bytes,
                             const std::function<void(int, const std::uint8_t*)>& take) {
    PngReader reader(bytes, /*indices=*/false, /*deep=*/true);
    if (!reader.interlaced()) {
        reader.read_deep(row_, take);
        return;
    }
    constexpr int kBytes = 8;  // of a pixel
    const std::uint64_t all = std::uint64_t{kBytes} * static_cast<std::uint64_t>(reader.height()) *
                              static_cast<std::uint64_t>(reader.width());
    require_memory(all, "png");
    interlaced_.reset(reader.height(), reader.width(), kBytes);
    reader.read_passes(interlaced_.view());
    for (int y = 0; y < reader.height(); ++y) {
        take(y, interlaced_.view().row(y));
    }
}

}  // namespace stoker
