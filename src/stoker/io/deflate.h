// Inflates a whole buffer whose size is known, with libdeflate. gzip.h reads streams.
#pragma once

#include <cstddef>
#include <span>

namespace stoker {

enum class DeflateForm { raw, zlib };  // as in zip files, and with zlib's header and checksum

// Fills `out`. False if the stream is damaged, or holds fewer or more bytes. Throws std::bad_alloc.
bool inflate(std::span<const std::byte> packed, DeflateForm form, std::span<std::byte> out);

}  // namespace stoker
