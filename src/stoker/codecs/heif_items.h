// The items of an AVIF or HEIC and their references, read before libheif sees the file. libheif 1.15 follows derived
// images in a circle until the stack ends, and takes another of two equal boxes than this reader: both are refused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/codecs/codec.h"
#include "stoker/codecs/file_boxes.h"

namespace stoker {

struct HeifItem {
    std::string_view type;                            // "av01", "hvc1", "grid", "Exif", ...
    std::vector<std::span<const std::byte>> content;  // in parts
    std::vector<FileBox> properties;
    std::vector<std::uint64_t> tiles;      // that a derived image is made of
    std::vector<std::uint64_t> auxiliary;  // such as alpha
    std::vector<std::uint64_t> parts;      // these and all others that belong to this item

    bool coded() const { return type == "av01" || type == "hvc1"; }
    std::vector<std::byte> joined_content() const;
};

struct HeifItems {
    Codec codec = Codec::avif;
    std::uint64_t primary = 0;
    std::map<std::uint64_t, HeifItem> all;

    const HeifItem& shown() const { return all.at(primary); }
};

// Throws DataError unless every list is whole and unambiguous, no items refer to each other in a circle, derived images
// are grids of coded images, and the primary image is one of these.
HeifItems read_heif_items(std::span<const std::byte> bytes);

[[noreturn]] void refuse_heif(Codec codec, std::string got);

// Throws DataError if the boxes do not reach the last byte, or are too many.
std::vector<FileBox> whole_boxes_in(std::span<const std::byte> bytes, Codec codec);

struct GridCanvas {
    std::uint64_t height = 0;
    std::uint64_t width = 0;
    std::uint64_t pixels() const { return height * width; }
};

// The size that the content of a grid states. Throws DataError if it is cut.
GridCanvas grid_canvas(Codec codec, const HeifItem& grid);

}  // namespace stoker
