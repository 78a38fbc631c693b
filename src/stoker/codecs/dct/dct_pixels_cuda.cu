// Two kernels for records. The first takes a warp for each row of blocks: every lane unpacks one block, finds its place
// in the packed bytes by sums over the lanes before it, and transforms it in shared memory. The second takes a thread
// for each pixel. Blocks (x: the crop, y: some of its rows, or of its pixels).
#include <cuda_runtime_api.h>

#include <string>

#include "stoker/base/error.h"
#include "stoker/base/kernel_works.cuh"
#include "stoker/codecs/dct/dct_pixels_cuda.h"
#include "stoker/codecs/dct/idct_device.cuh"
#include "stoker/codecs/dct/jpeg_samples.h"

namespace stoker {
namespace {

constexpr int kWarp = 32;
constexpr int kWarps = 4;               // of a block of dct_samples_kernel
constexpr int kPitch = kBlockSize + 2;  // of a lane's block in shared memory: each lane uses another bank
constexpr int kThreads = 256;           // of a block of dct_rgb_kernel
constexpr int kPixels = 2048;           // of a block of dct_rgb_kernel
constexpr unsigned kAllLanes = ~0u;

// The sum of `value` over the lanes before this one; adds that of all lanes to `total`.
__device__ std::uint32_t sum_before(std::uint32_t value, std::uint32_t& total) {
    const unsigned lane = threadIdx.x % kWarp;
    const std::uint32_t base = total;
    std::uint32_t sum = value;
    for (unsigned by = 1; by < kWarp; by *= 2) {
        const std::uint32_t other = __shfl_up_sync(kAllLanes, sum, by);
        sum += lane >= by ? other : 0;
    }
    total += __shfl_sync(kAllLanes, sum, kWarp - 1);
    return base + sum - value;
}

__device__ int nibble_at(const std::uint8_t* values, std::uint32_t i) {
    return values[i / 2] >> (4 * (i % 2)) & 15;
}

// The packed bytes of a row, and how much of them the blocks before have used.
struct PackedRow {
    const std::uint8_t* masks;
    const std::uint8_t* values;
    const std::int8_t* escapes;
    const std::int16_t* wide;
    std::uint32_t used_masks = 0;
    std::uint32_t used_values = 0;
    std::uint32_t used_escapes = 0;
    std::uint32_t used_wide = 0;
};

// The start of one block.
struct PackedBlock {
    std::uint64_t mask;
    std::uint32_t value;
    std::uint32_t escape;
    std::uint32_t wide;
};

// Called by all lanes of a warp, one block each; a lane without a block has length 0.
__device__ PackedBlock find_block(PackedRow& row, std::uint32_t length) {
    PackedBlock block{};
    const std::uint8_t* const mask = row.masks + sum_before(length, row.used_masks);
    for (std::uint32_t i = 0; i < length; ++i) {
        block.mask |= static_cast<std::uint64_t>(mask[i]) << (8 * i);
    }
    const auto values = static_cast<std::uint32_t>(__popcll(block.mask));
    block.value = sum_before(values, row.used_values);
    std::uint32_t escapes = 0;
    for (std::uint32_t i = 0; i < values; ++i) {
        escapes += nibble_at(row.values, block.value + i) == 0 ? 1 : 0;
    }
    block.escape = sum_before(escapes, row.used_escapes);
    std::uint32_t wide = 0;
    for (std::uint32_t i = 0; i < escapes; ++i) {
        wide += row.escapes[block.escape + i] == -128 ? 1 : 0;
    }
    block.wide = sum_before(wide, row.used_wide);
    return block;
}

// Writes the block's coefficients. Returns true if rows 1 to 7 are zero.
__device__ bool expand(const PackedRow& row, PackedBlock at, std::int16_t dc, std::int16_t* block) {
    for (int i = 0; i < kBlockSize; ++i) {
        block[i] = 0;
    }
    block[0] = dc;
    bool first_row_only = true;
    for (; at.mask != 0; at.mask &= at.mask - 1) {
        const int nibble = nibble_at(row.values, at.value++);
        int value = nibble < 8 ? nibble : nibble - 16;
        if (nibble == 0) {
            value = row.escapes[at.escape++];
            if (value == -128) {
                value = row.wide[at.wide++];
            }
        }
        const int number = __ffsll(static_cast<long long>(at.mask));
        if (number < kBlockSize) {  // the last bit is set only in damaged files
            const int place = idct_device::kNaturalIndex[number];
            block[place] = static_cast<std::int16_t>(value);
            first_row_only = first_row_only && (place < kBlockSide || value == 0);
        }
    }
    return first_row_only;
}

__global__ void dct_samples_kernel(std::byte* __restrict__ memory, const DctCropPlace* __restrict__ places) {
    __shared__ std::int16_t blocks[kWarps * kWarp][kPitch];
    const DctCropPlace place = places[blockIdx.x];
    const std::byte* const crop = memory + place.crop;
    const auto& head = *reinterpret_cast<const DctCrop*>(crop);
    const std::uint32_t number = blockIdx.y * kWarps + threadIdx.x / kWarp;
    if (place.crop == 0 || number >= head.rows) {
        return;  // all lanes of the warp
    }
    const DctCropRow row = reinterpret_cast<const DctCropRow*>(crop + sizeof(DctCrop))[number];
    const DctCropPlane& plane = head.planes[row.component];
    const std::byte* const bytes = crop + row.at;
    const auto* const dc = reinterpret_cast<const std::int16_t*>(bytes);
    const auto* const lengths = reinterpret_cast<const std::uint8_t*>(dc + row.blocks);
    PackedRow packed{.masks = lengths + row.blocks,
                     .values = reinterpret_cast<const std::uint8_t*>(bytes + row.values),
                     .escapes = reinterpret_cast<const std::int8_t*>(bytes + row.escapes),
                     .wide = reinterpret_cast<const std::int16_t*>(bytes + row.wide),
                     .used_values = row.odd};
    std::int16_t* const block = blocks[threadIdx.x];
    std::byte* const samples = memory + place.samples + row.sample;
    for (std::uint32_t first = 0; first < row.blocks; first += kWarp) {
        const std::uint32_t i = first + threadIdx.x % kWarp;
        const bool has_block = i < row.blocks;
        const PackedBlock at = find_block(packed, has_block ? lengths[i] : 0);
        if (has_block) {
            const bool first_row_only = expand(packed, at, dc[i], block);
            idct_device::columns(block, plane.quant, first_row_only);
            for (int v = 0; v < kBlockSide; ++v) {
                *reinterpret_cast<std::uint64_t*>(samples + std::int64_t{v} * plane.stride + kBlockSide * i) =
                    idct_device::row_of_samples(block, v);
            }
        }
    }
}

__device__ int inside(int i, int size) {
    return i < 0 ? 0 : i < size ? i : size - 1;
}

// i / scale. Planes have all or half of an image's rows and columns, but for a few old files; a division takes longer.
__device__ int scaled_down(int i, int scale) {
    return scale == 1 ? i : scale == 2 ? i >> 1 : i / scale;
}

// The plane's value at a pixel of the image. Edge samples are repeated beyond the edge.
__device__ int upsampled(const DctCropPlane& plane, const std::uint8_t* samples, int y, int x) {
    const int row = scaled_down(y, plane.scale_v);
    const int column = scaled_down(x, plane.scale_h);
    const std::uint8_t* const near = samples + plane.at + std::int64_t{row - plane.top} * plane.stride - plane.left;
    const int far_row = inside(y % 2 == 0 ? row - 1 : row + 1, plane.height);
    const std::uint8_t* const far = near + std::int64_t{far_row - row} * plane.stride;
    const int next = inside(x % 2 == 0 ? column - 1 : column + 1, plane.width);
    if (plane.smooth_h != 0 && plane.smooth_v != 0) {
        const int here = 3 * near[column] + far[column];
        return (3 * here + 3 * near[next] + far[next] + (x % 2 == 0 ? 8 : 7)) >> 4;
    }
    if (plane.smooth_h != 0) {
        return (3 * near[column] + near[next] + (x % 2 == 0 ? 1 : 2)) >> 2;
    }
    if (plane.smooth_v != 0) {
        return (3 * near[column] + far[column] + (y % 2 == 0 ? 1 : 2)) >> 2;
    }
    return near[column];
}

// The constants of block_kernels.cpp.
__device__ void write_rgb(std::uint32_t color, const int (&values)[3], std::uint8_t* rgb) {
    int red = values[0];
    int green = color == static_cast<std::uint32_t>(FrameColor::grey) ? values[0] : values[1];
    int blue = color == static_cast<std::uint32_t>(FrameColor::grey) ? values[0] : values[2];
    if (color == static_cast<std::uint32_t>(FrameColor::ycc)) {
        constexpr int kHalf = 1 << 15;
        const int cb = values[1] - 128;
        const int cr = values[2] - 128;
        red = values[0] + ((91881 * cr + kHalf) >> 16);
        green = values[0] + ((-22554 * cb - 46802 * cr + kHalf) >> 16);
        blue = values[0] + ((116130 * cb + kHalf) >> 16);
    }
    rgb[0] = static_cast<std::uint8_t>(idct_device::clamped(red, 0, 255));
    rgb[1] = static_cast<std::uint8_t>(idct_device::clamped(green, 0, 255));
    rgb[2] = static_cast<std::uint8_t>(idct_device::clamped(blue, 0, 255));
}

__global__ void dct_rgb_kernel(std::byte* __restrict__ memory, const DctCropPlace* __restrict__ places) {
    const DctCropPlace place = places[blockIdx.x];
    if (place.crop == 0) {
        return;
    }
    const auto& head = *reinterpret_cast<const DctCrop*>(memory + place.crop);
    const auto* const samples = reinterpret_cast<const std::uint8_t*>(memory + place.samples);
    auto* const rgb = reinterpret_cast<std::uint8_t*>(memory + place.pixels);
    const DctCropPlane planes[3] = {head.planes[0], head.planes[1], head.planes[2]};
    const Box box = head.box;
    const int pixels = box.height * box.width;
    const std::int64_t begin = std::int64_t{blockIdx.y} * kPixels;
    const int end = static_cast<int>(begin + kPixels < pixels ? begin + kPixels : pixels);
    for (int i = static_cast<int>(begin) + static_cast<int>(threadIdx.x); i < end; i += kThreads) {
        const int line = i / box.width;
        const int y = box.top + line;
        const int x = box.left + i - line * box.width;
        int values[3] = {};
#pragma unroll
        for (std::uint32_t c = 0; c < 3; ++c) {
            if (c < head.components) {
                values[c] = upsampled(planes[c], samples, y, x);
            }
        }
        write_rgb(head.color, values, rgb + std::int64_t{3} * i);
    }
}

void check_launch(const char* kernel, const DctCropBatch& batch) {
    const cudaError_t status = cudaGetLastError();
    if (status != cudaSuccess) {
        throw CudaError({.where = kernel,
                         .expected = "a launch over " + std::to_string(batch.n) + " crops",
                         .got = cudaGetErrorString(status)});
    }
}

}  // namespace

bool dct_pixels_cuda_works() {
    return kernel_works(dct_samples_kernel);
}

void dct_pixels_cuda(const DctCropBatch& batch, void* stream) {
    constexpr std::uint32_t kMostBlocks = 65535;  // in y
    if (batch.pixels > kMostBlocks * kPixels || batch.rows > kMostBlocks * kWarps) {
        throw InvalidArgument({.where = "dct_pixels_cuda",
                               .expected = "crops of at most " + std::to_string(kMostBlocks * kPixels) + " pixels",
                               .got = std::to_string(batch.pixels)});
    }
    auto* const on = static_cast<cudaStream_t>(stream);
    const auto n = static_cast<unsigned>(batch.n);
    if (batch.rows > 0) {  // a launch of no blocks would be an error
        const dim3 rows(n, (batch.rows + kWarps - 1) / kWarps);
        dct_samples_kernel<<<rows, kWarps * kWarp, 0, on>>>(batch.memory, batch.places);
        check_launch("dct_samples_kernel", batch);
    }
    jpeg_samples_cuda(batch, stream);
    if (batch.pixels == 0) {
        return;
    }
    const dim3 pixels(n, (batch.pixels + kPixels - 1) / kPixels);
    dct_rgb_kernel<<<pixels, kThreads, 0, on>>>(batch.memory, batch.places);
    check_launch("dct_rgb_kernel", batch);
}

}  // namespace stoker
