// The size of the pictures that an AVIF or a HEIC contains, from the headers of AV1 and HEVC. The size that the
// container states may be another: a file of 2 KB that says 16 x 16 had libheif 1.15 decode 12000 x 12000 pixels in 1
// GB.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace stoker {

// The pixels of the largest picture; the largest number if items refer to the same bytes again and again; 0 if no
// header is understood, which the decoders then refuse.
std::uint64_t largest_coded_picture(std::span<const std::byte> bytes);

}  // namespace stoker
