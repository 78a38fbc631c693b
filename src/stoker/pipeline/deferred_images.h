// Images from a DctCropSlot: the records' coefficients to pixels (codecs/dct/dct_pixels), then the ops (ops/assemble,
// ops/colors).
#pragma once

#include <vector>

#include "stoker/pipeline/batch.h"
#include "stoker/pipeline/dct_crop_slot.h"

namespace stoker {

struct DeferredImages {
    DeferredDecode decode;
    std::byte* memory = nullptr;  // a DctCropSlot of `samples` samples, and the scratch memory of its groups
    std::int64_t samples = 0;
    std::vector<DctCropGroup> groups;
    std::uint8_t* out = nullptr;  // (samples, height, width, channels)
};

// In host memory. The bits that a loader of PixelImages gives.
void make_images(const DeferredImages& images);

// The same on the current device. `stream` is a cudaStream_t; the function returns when the work is queued. Throws
// CudaError, and Unsupported in a build without CUDA.
void make_images_cuda(const DeferredImages& images, void* stream);

// True if this build has the kernels for the current device.
bool make_images_cuda_works();

}  // namespace stoker
