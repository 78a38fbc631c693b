// Caffe's record of one image, a protobuf message named Datum: sides, label, and raw planes or an encoded image.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "stoker/formats/dataset.h"

namespace stoker {

// True if the first byte is the tag of a field with which a Datum may begin.
bool may_be_datum(std::span<const std::byte> bytes);

// Reads a Datum into the sample. Raw pixels (C, H, W) become (H, W, C). The message does not say the order of the
// channels, which stays as stored: blue, green, red in files of Caffe's convert_imageset. Throws DataError with the
// offset for damaged bytes, Unsupported for pixels that are floats.
void read_datum(std::span<const std::byte> bytes, Sample& sample);

}  // namespace stoker
