// Images from a CutSlot: the records' coefficients to pixels (codecs/dct/dct_pixels), then the ops (ops/assemble,
// ops/colors).
#pragma once

#include <vector>

#include "stoker/pipeline/batch.h"
#include "stoker/pipeline/cut_slot.h"

namespace stoker {

struct LateImages {
    LateDecode decode;
    std::byte* memory = nullptr;  // a CutSlot of `samples` samples, and the scratch memory of its groups
    std::int64_t samples = 0;
    std::vector<CutGroup> groups;
    std::uint8_t* out = nullptr;  // (samples, height, width, channels)
};

// In host memory. The bits that the loader gives without LoaderOptions::cut_bytes.
void make_images(const LateImages& images);

// The same on the current device. `stream` is a cudaStream_t; the function returns when the work is queued. Throws
// CudaError, and Unsupported in a build without CUDA.
void make_images_cuda(const LateImages& images, void* stream);

// True if this build has the kernels for the current device.
bool make_images_cuda_works();

}  // namespace stoker
