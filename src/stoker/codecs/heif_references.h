// The references among the items of an AVIF or HEIC.
#pragma once

#include <cstddef>
#include <span>

#include "stoker/codecs/heif_items.h"

namespace stoker {

// Adds the references of an `iref` box. Throws DataError for a damaged box and for an item that refers to itself.
void read_heif_references(std::span<const std::byte> box, HeifItems& items);

// Throws DataError for references in a circle, for derived images that are not grids of coded images, and for a primary
// image that is neither coded nor a grid.
void check_heif_references(const HeifItems& items);

}  // namespace stoker
