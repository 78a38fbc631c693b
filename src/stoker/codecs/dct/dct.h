// The `dct` codec stores a JPEG's quantised coefficients losslessly. Its decoder needs no Huffman pass and reads only
// the blocks that a crop needs. The pixels equal libjpeg-turbo's. FORMAT.md specifies the bytes.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "stoker/base/image.h"
#include "stoker/codecs/codec.h"
#include "stoker/codecs/dct/dct_blocks.h"
#include "stoker/codecs/jpeg/block_decoder.h"

namespace stoker {

// Returns Codec::dct, dct_zstd or dct_ans from a record's first bytes; empty for other data.
std::optional<Codec> sniff_dct(std::span<const std::byte> bytes);

// Decodes the sink's region of a record to RGB rows. Use one per thread; it reuses its memory. Both functions throw
// DataError.
class DctDecoder {
  public:
    ImageInfo info(std::span<const std::byte> bytes);
    void decode(std::span<const std::byte> bytes, RowSink& sink);

  private:
    DctBlocks blocks_;
    BlockDecoder pixels_;
};

// The result of converting one JPEG: a record, or the reason why it must stay a JPEG (CMYK, missing scans, ...).
struct DctRecord {
    std::vector<std::byte> bytes;  // empty if there is a reason
    std::string reason;
    bool exact_file = false;  // restore_jpeg returns the bytes of the original file, not only its pixels
};

// How a record stores its coefficients: as segments; as segments that zstd compresses, smaller, but slower to read;
// with rANS, smaller still.
enum class DctKind { segments, zstd, ans };
inline constexpr DctKind kDctKinds[] = {DctKind::segments, DctKind::zstd, DctKind::ans};

// Throws DataError if the bytes are not a JPEG or are damaged, because such a sample is bad in every codec.
DctRecord encode_dct(std::span<const std::byte> jpeg, DctKind kind = DctKind::segments);

// Returns the record's JPEG: the original bytes if the record has its exact-file flag, else a JPEG with the same
// coefficients and markers and therefore the same pixels. Throws DataError.
std::vector<std::byte> restore_jpeg(std::span<const std::byte> dct);

}  // namespace stoker
