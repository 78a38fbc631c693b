// Encoded images to pixels: detects the codec from the first bytes and writes RGB rows into a RowSink.
// Use one Decoder per thread; it reuses its memory from image to image.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "stoker/base/image.h"

namespace stoker {

class JpegIndex;
struct EntryPoints;

enum class Codec { jpeg, png, dct, dct_zstd, webp, bmp, pnm, tiff, avif, heic, jxl, gif, jpeg2000, dct_ans };

std::string_view codec_name(Codec codec);

// Looks only at the first bytes, never at a file name. Empty for unknown bytes.
std::optional<Codec> sniff_codec(std::span<const std::byte> bytes);

struct ImageInfo {
    Codec codec = Codec::jpeg;
    int height = 0;  // as stored, before any EXIF orientation
    int width = 0;
    int orientation = 1;       // EXIF orientation 1..8; 1 if there is none
    bool progressive = false;  // JPEG: progressive, PNG: interlaced
    int bits = 8;              // of a channel, as stored: 16 in a deep PNG or PNM; `decode` reduces them to 8
    int channels = 3;          // as decoded
};

struct DecodeOptions {
    bool exif = false;         // apply the EXIF orientation
    bool first_frame = false;  // of an animation (WebP, GIF, AVIF, JPEG XL), which is refused otherwise
    bool indices = false;      // a mask's class indices: decode() gives a PNG's stored grey levels or palette indices
                               // on all three channels, refuses every other image, and ignores `exif`
};

// Images with more pixels than this are refused before any memory is allocated.
inline constexpr std::int64_t kMaxPixels = std::int64_t{1} << 28;

// True for a JPEG that an index may keep the entry points of, by its first bytes and its size.
bool is_indexed_jpeg(std::span<const std::byte> bytes);

class Decoder {
  public:
    Decoder();
    Decoder(Decoder&&) noexcept;
    Decoder& operator=(Decoder&&) noexcept;
    ~Decoder();

    // Reads the header only. Throws what `decode` throws.
    ImageInfo info(std::span<const std::byte> bytes, const DecodeOptions& options = {});

    // Decodes the sink's region to uint8 RGB (H, W, 3). Grey is repeated, 16 bits are reduced to 8, alpha is
    // dropped, CMYK and YCCK are converted, as in Pillow's convert("RGB") except for 16-bit grey (docs/codecs.md).
    // Throws DataError for unknown, truncated or damaged bytes, and InvalidArgument for a region outside of the
    // image. Rows above and below the region may not be read, and then their damage is not noticed. When it throws, the
    // sink may have received some rows, but not `finish`. A TIFF is refused: tiff.h reads it. Throws IoError if the
    // library of an AVIF, HEIC, JPEG XL, GIF or JPEG 2000 is missing.
    void decode(std::span<const std::byte> bytes, RowSink& sink, const DecodeOptions& options = {});

    // Decodes a PNG of 16 bits: calls take(y, row) for each row from the top, RGBA of uint16 (width, 4). Knows no
    // orientation. Throws DataError.
    void decode_deep(std::span<const std::byte> bytes, const std::function<void(int, const std::uint8_t*)>& take);

    // Entry points of JPEGs are looked up there and kept there; null: nowhere. Must stay valid.
    void use_index(JpegIndex* index);
    // The entry points that the index has of these bytes; empty if there are none, or no index.
    EntryPoints known_points(std::span<const std::byte> bytes);
    // Adds the entry points of a JPEG to the index, without decoding its pixels. Returns false if it has none: it is
    // small, has restart markers, or is not baseline. Throws DataError.
    bool index_jpeg(std::span<const std::byte> bytes, JpegIndex& index);

    // The time in Huffman decoding since the last call; only baseline JPEGs measure it.
    std::chrono::nanoseconds take_entropy_time();

  private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace stoker
