// The pieces of a JPEG's scan (jpeg_crop.h) to samples of its planes. Internal to dct_pixels and dct_pixels_cuda.
#pragma once

#include "stoker/codecs/dct/dct_pixels.h"
#include "stoker/codecs/dct/jpeg_crop.h"

namespace stoker {

// In host memory, one bit at a time. Returns false for a damaged piece: its blocks from the damage on are grey.
bool jpeg_samples(const std::byte* crop, std::uint8_t* samples);

// The same for the crops of a batch with pieces; sets DctCropPlace::damaged. All addresses are the device's. Returns
// when the work is queued. Throws CudaError, InvalidArgument.
void jpeg_samples_cuda(const DctCropBatch& batch, void* stream);

}  // namespace stoker
