// Caffe's record of one image, a protobuf message named Datum: sides, label, and either raw planes or an encoded image.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "stoker/formats/dataset.h"

namespace stoker {

// True where the first byte is the tag of one of the fields that a Datum begins with.
bool may_be_datum(std::span<const std::byte> bytes);

// Reads a Datum. Raw pixels (C, H, W) become (H, W, C); their channels stay in the order in which they are stored,
// which for Caffe's own convert_imageset is blue, green, red, and which the message does not tell. Throws DataError
// with the offset for damaged bytes, Unsupported for pixels that are floats.
void read_datum(std::span<const std::byte> bytes, Sample& sample);

}  // namespace stoker
