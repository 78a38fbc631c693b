// Brands and the properties of the shown image of an AVIF or HEIC file, read without libheif. The library has functions
// for orientations only from 1.16 on.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "stoker/codecs/codec.h"

namespace stoker {

// Codec::avif or Codec::heic, by the main and the compatible brands; nothing for other bytes.
std::optional<Codec> heif_codec(std::span<const std::byte> bytes);

// False if a box of the file goes beyond its end: it is cut.
bool is_heif_complete(std::span<const std::byte> bytes);

// True if the main brand is that of a sequence of images.
bool is_heif_sequence(std::span<const std::byte> bytes);

// How the decoder's parameters say that chroma is stored: 0 not at all, 1 as 4:2:0, 2 as 4:2:2, 3 as 4:4:4. Nothing if
// they do not say it. An image made of tiles has those of its first tile.
std::optional<int> heif_chroma_format(std::span<const std::byte> bytes);

// The EXIF orientation that the properties `irot` (turned first) and `imir` of the primary image mean. 1 if there are
// none, or for damaged boxes, which libheif refuses.
int heif_orientation(std::span<const std::byte> bytes);

}  // namespace stoker
