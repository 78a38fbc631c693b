// The planes of a JPEG 2000, with OpenJPEG, which is opened at the first such file.
#pragma once

#include <openjpeg.h>

#include <cstddef>
#include <memory>
#include <span>

namespace stoker {

using J2kPlanes = std::unique_ptr<opj_image_t, void (*)(opj_image_t*)>;

// Palettes are applied, colours are not converted. In this thread. Throws DataError, and IoError without the library.
J2kPlanes decode_j2k(std::span<const std::byte> bytes);

}  // namespace stoker
