// Encoded images to pixels: recognises the codec by its first bytes and streams RGB rows into a
// sink. A Decoder is one worker's: it keeps its scratch memory from image to image.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "stoker/base/image.h"

namespace stoker {

enum class Codec { jpeg, png, dct, dct_zstd, webp, bmp, pnm };

std::string_view codec_name(Codec codec);

// By the first bytes, never by a file name; empty for anything else.
std::optional<Codec> sniff_codec(std::span<const std::byte> bytes);

// What an image's header says.
struct ImageInfo {
    Codec codec = Codec::jpeg;
    int height = 0;  // as stored, before any EXIF orientation
    int width = 0;
    int orientation = 1;       // EXIF 1..8; 1 where there is none
    bool progressive = false;  // JPEG: progressive, PNG: interlaced
};

struct DecodeOptions {
    bool exif = false;  // turn the pixels upright as the EXIF orientation says
};

// More pixels than this in one image are refused before any memory is taken.
inline constexpr std::int64_t kMaxPixels = std::int64_t{1} << 28;

class Decoder {
  public:
    Decoder();
    Decoder(Decoder&&) noexcept;
    Decoder& operator=(Decoder&&) noexcept;
    ~Decoder();

    // Reads the header only. Throws DataError.
    ImageInfo info(std::span<const std::byte> bytes);

    // Decodes the sink's region to uint8 RGB (H, W, 3), whatever the file holds: grey is repeated, 16 bits
    // are reduced to 8, alpha is dropped, CMYK and YCCK are converted, all as Pillow's convert("RGB") does (but
    // for 16-bit grey; docs/codecs.md). Throws DataError for bytes that are no image, are truncated or damaged
    // (where rows below the region are not read, their damage is not seen), and InvalidArgument for a region
    // that is not within the image. The sink may have seen some rows by then, but not `finish`.
    void decode(std::span<const std::byte> bytes, RowSink& sink, const DecodeOptions& options = {});

  private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace stoker
