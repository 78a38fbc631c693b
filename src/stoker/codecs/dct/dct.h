// The `dct` codec: a JPEG's quantised coefficients stored losslessly so that a decoder needs no Huffman
// pass and reads only the blocks that a crop needs. The pixels are libjpeg-turbo's, bit for bit. The
// format is docs/dct-codec.md.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "stoker/base/image.h"
#include "stoker/codecs/codec.h"

namespace stoker {

// Codec::dct or Codec::dct_zstd by a record's first bytes; empty for anything else.
std::optional<Codec> sniff_dct(std::span<const std::byte> bytes);

// Decodes records to RGB rows, only the sink's region of them. One worker's: keeps its memory. Both calls
// throw DataError.
class DctDecoder {
  public:
    DctDecoder();
    DctDecoder(DctDecoder&&) noexcept;
    DctDecoder& operator=(DctDecoder&&) noexcept;
    ~DctDecoder();

    ImageInfo info(std::span<const std::byte> bytes);
    void decode(std::span<const std::byte> bytes, RowSink& sink);

  private:
    struct State;
    std::unique_ptr<State> state_;
};

// What re-coding one JPEG gave: a record, or the reason why it has to stay a JPEG (CMYK, scans missing, ...).
struct DctRecord {
    std::vector<std::byte> bytes;  // empty where `reason` is not
    std::string reason;
    bool exact_file = false;  // restore_jpeg gives back the very bytes of the file, not only its pixels
};

struct DctOptions {
    bool zstd = false;  // a second, general stage: smaller, slower to read
};

// Throws DataError for bytes that are no JPEG or are damaged: they are bad samples in any codec.
DctRecord encode_dct(std::span<const std::byte> jpeg, const DctOptions& options = {});

// The JPEG that a record was made of: byte for byte where the record says so, else one with the same
// coefficients, markers and so pixels. Throws DataError.
std::vector<std::byte> restore_jpeg(std::span<const std::byte> dct);

}  // namespace stoker
