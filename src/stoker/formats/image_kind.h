// Tells encoded images from other bytes by how they begin. Formats stand below the codecs, so they know the
// beginnings only; whether the rest is an image, decoding tells.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "stoker/formats/dataset.h"

namespace stoker {

// .jpg, .jpeg, .png, .webp, .bmp, .ppm or .pgm, in any case.
bool is_image_name(std::string_view name);

// The name of an image in a format that no codec of ours reads: .tif, .tiff, .gif, .heic, .heif, .avif, .jxl, .jp2.
bool is_unread_image_name(std::string_view name);

// JPEG, PNG, WebP, BMP, PGM and PPM, and Stoker's own dct records: what sniff_codec of codecs/codec.h knows.
bool is_encoded_image(std::span<const std::byte> bytes);

// Hands over an encoded image as it is. Throws DataError where the bytes do not begin as one.
void set_encoded(std::span<const std::byte> bytes, Sample& sample);

// "1024 bytes: 47 49 46 38 39 61 01 00": for messages.
std::string describe_bytes(std::span<const std::byte> bytes);

}  // namespace stoker
