// A thread for each piece of a scan: it decodes one block after the other in shared memory and transforms it there, so
// the lanes of a warp are together again for each block. Blocks (x: the crop, y: some of its pieces).
#include <cuda_runtime_api.h>

#include <string>

#include "stoker/base/error.h"
#include "stoker/codecs/dct/idct_device.cuh"
#include "stoker/codecs/dct/jpeg_samples.h"

namespace stoker {
namespace {

constexpr int kPieces = 64;             // of a block of threads
constexpr int kPitch = kBlockSize + 2;  // of a thread's block in shared memory: each lane uses another bank
constexpr int kLookUp = 9;              // bits of a code that one look-up finds
constexpr int kEntries = 1 << kLookUp;
constexpr unsigned kUnknown = ~0u;

// Symbol and length of a code; 0: the code is longer than kLookUp, or unknown.
using Entry = std::uint16_t;

// The look-up table of some codes, by all threads.
__device__ void fill_look_up(const JpegCodes& codes, Entry* entries) {
    for (unsigned i = threadIdx.x; i < kEntries; i += kPieces) {
        const unsigned top = i << (16 - kLookUp);
        entries[i] = 0;
        for (unsigned length = 1; length <= kLookUp; ++length) {
            if (top < codes.limits[length]) {
                const unsigned place = (top >> (16 - length)) + codes.offsets[length];
                entries[i] = static_cast<Entry>(codes.symbols[place & 255] << 8 | length);
                break;
            }
        }
    }
}

__device__ std::uint32_t big_endian(std::uint32_t word) {
    return word << 24 | (word & 0xff00) << 8 | (word >> 8 & 0xff00) | word >> 24;
}

// The bits of one piece; `bits` has at least 32 of them. It may run beyond the piece's end, by one block.
class BitReader {
  public:
    __device__ BitReader(const std::byte* bytes, std::uint32_t bit)
        : words_(reinterpret_cast<const std::uint32_t*>(bytes) + bit / 32), bit_(bit) {
        bits_ = static_cast<std::uint64_t>(big_endian(*words_++)) << 32;
        bits_ = (bits_ | big_endian(*words_++)) << (bit % 32);
        left_ = 64 - static_cast<int>(bit % 32);
    }

    __device__ std::uint32_t bit() const { return bit_; }

    // A code's symbol, or kUnknown.
    __device__ unsigned symbol(const JpegCodes& codes, const Entry* look_up) {
        const auto top = static_cast<unsigned>(bits_ >> 48);
        if (const Entry entry = look_up[top >> (16 - kLookUp)]; entry != 0) {
            skip(entry & 0xff);
            return entry >> 8;
        }
        for (unsigned length = kLookUp + 1; length <= 16; ++length) {
            if (top < codes.limits[length]) {
                skip(static_cast<int>(length));
                return codes.symbols[((top >> (16 - length)) + codes.offsets[length]) & 255];
            }
        }
        return kUnknown;
    }

    // A value of `size` bits, at most 15: those whose first bit is 0 are negative.
    __device__ int value(unsigned size) {
        if (size == 0) {
            return 0;
        }
        const auto number = static_cast<int>(bits_ >> (64 - size));
        skip(static_cast<int>(size));
        return number >> (size - 1) == 0 ? number - (1 << size) + 1 : number;
    }

  private:
    __device__ void skip(int count) {
        bits_ <<= count;
        bit_ += static_cast<std::uint32_t>(count);
        left_ -= count;
        if (left_ <= 32) {
            bits_ |= static_cast<std::uint64_t>(big_endian(*words_++)) << (32 - left_);
            left_ += 32;
        }
    }

    const std::uint32_t* words_;  // the next one
    std::uint64_t bits_ = 0;      // from the top
    int left_ = 0;
    std::uint32_t bit_;
};

enum class Found { damage, first_row, all_rows };  // of a block: whether rows 1 to 7 may have values

// Adds the block's coefficients to zeros. `dc`: of the block before; becomes this one's.
__device__ Found read_block(BitReader& reader, const JpegScan& scan, const JpegMcuBlock& place,
                            const Entry (&look_up)[4][kEntries], int& dc, std::int16_t* block) {
    const unsigned size = reader.symbol(scan.codes[place.dc], look_up[place.dc]);
    if (size == kUnknown) {
        return Found::damage;
    }
    dc += reader.value(size & 15);
    if (dc != static_cast<std::int16_t>(dc)) {
        return Found::damage;
    }
    block[0] = static_cast<std::int16_t>(dc);
    Found found = Found::first_row;
    for (unsigned k = 1; k < kBlockSize; ++k) {
        const unsigned symbol = reader.symbol(scan.codes[place.ac], look_up[place.ac]);
        if (symbol == kUnknown) {
            return Found::damage;
        }
        if ((symbol & 15) == 0 && symbol != 0xf0) {  // an end of block
            break;
        }
        k += symbol >> 4;
        if (k >= kBlockSize) {
            return Found::damage;
        }
        const int natural = idct_device::kNaturalIndex[k];
        const int value = reader.value(symbol & 15);
        block[natural] = static_cast<std::int16_t>(value);
        found = natural >= kBlockSide && value != 0 ? Found::all_rows : found;
    }
    return found;
}

// Writes a block's samples, if the plane has the block. This is the only place that writes, whatever a scan holds.
__device__ void write_block(const DctCrop& head, unsigned component, int row, int column, std::int16_t* block,
                            bool first_row_only, std::byte* samples) {
    const DctCropPlane& plane = head.planes[component];
    const std::uint32_t end = component + 1 < head.components ? head.planes[component + 1].at : head.samples;
    const int y = kBlockSide * row - plane.top;
    const int x = kBlockSide * column - plane.left;
    if (y < 0 || x < 0 || x >= plane.stride || std::int64_t{y + kBlockSide} * plane.stride > end - plane.at) {
        return;
    }
    idct_device::columns(block, plane.quant, first_row_only);
    std::byte* const to = samples + plane.at + std::int64_t{y} * plane.stride + x;
    for (int v = 0; v < kBlockSide; ++v) {
        *reinterpret_cast<std::uint64_t*>(to + std::int64_t{v} * plane.stride) = idct_device::row_of_samples(block, v);
    }
}

// Returns false for a damaged piece.
__device__ bool write_piece(const std::byte* crop, const JpegPiece& piece, const Entry (&look_up)[4][kEntries],
                            std::int16_t* block, std::byte* samples) {
    const auto& head = *reinterpret_cast<const DctCrop*>(crop);
    const auto& scan = *reinterpret_cast<const JpegScan*>(crop + sizeof(DctCrop));
    int dc[3] = {piece.dc[0], piece.dc[1], piece.dc[2]};
    BitReader reader(crop + scan.bytes, piece.bit);
    bool good = true;
    for (int mcu = piece.mcu_column; mcu < piece.mcu_column + piece.count; ++mcu) {
        for (std::uint32_t i = 0; i < scan.mcu_blocks; ++i) {
            const JpegMcuBlock place = scan.blocks[i];
            for (int k = 0; k < kBlockSize; ++k) {
                block[k] = 0;
            }
            Found found = Found::damage;
            if (good) {
                // An array that is indexed by a variable would be in memory.
                int own = place.component == 0 ? dc[0] : place.component == 1 ? dc[1] : dc[2];
                found = read_block(reader, scan, place, look_up, own, block);
                dc[0] = place.component == 0 ? own : dc[0];
                dc[1] = place.component == 1 ? own : dc[1];
                dc[2] = place.component == 2 ? own : dc[2];
                good = found != Found::damage && reader.bit() <= piece.end;
                for (int k = 0; !good && k < kBlockSize; ++k) {
                    block[k] = 0;
                }
            }
            write_block(head, place.component, piece.mcu_row * place.v + place.row, mcu * place.h + place.column, block,
                        found != Found::all_rows || !good, samples);
        }
    }
    good = good && reader.bit() == piece.end && dc[0] == piece.end_dc[0];
    return good && (head.components == 1 || (dc[1] == piece.end_dc[1] && dc[2] == piece.end_dc[2]));
}

__global__ void jpeg_samples_kernel(std::byte* __restrict__ memory, DctCropPlace* __restrict__ places) {
    __shared__ Entry look_up[4][kEntries];
    __shared__ std::int16_t blocks[kPieces][kPitch];
    const DctCropPlace place = places[blockIdx.x];
    const std::byte* const crop = memory + place.crop;
    const auto& head = *reinterpret_cast<const DctCrop*>(crop);
    if (place.crop == 0 || blockIdx.y * kPieces >= head.pieces) {
        return;  // all threads
    }
    const auto& scan = *reinterpret_cast<const JpegScan*>(crop + sizeof(DctCrop));
    for (int i = 0; i < 4; ++i) {
        fill_look_up(scan.codes[i], look_up[i]);
    }
    __syncthreads();
    const std::uint32_t number = blockIdx.y * kPieces + threadIdx.x;
    if (number >= head.pieces) {
        return;
    }
    const JpegPiece piece = reinterpret_cast<const JpegPiece*>(crop + sizeof(DctCrop) + sizeof(JpegScan))[number];
    if (!write_piece(crop, piece, look_up, blocks[threadIdx.x], memory + place.samples)) {
        places[blockIdx.x].damaged = 1;
    }
}

}  // namespace

void jpeg_samples_cuda(const DctCropBatch& batch, void* stream) {
    constexpr std::uint32_t kMostBlocks = 65535;  // in y
    if (batch.pieces > kMostBlocks * kPieces) {
        throw InvalidArgument({.where = "jpeg_samples_cuda",
                               .expected = "crops of at most " + std::to_string(kMostBlocks * kPieces) + " pieces",
                               .got = std::to_string(batch.pieces)});
    }
    if (batch.pieces == 0) {
        return;  // a launch of no blocks would be an error
    }
    const dim3 pieces(static_cast<unsigned>(batch.n), (batch.pieces + kPieces - 1) / kPieces);
    auto* const on = static_cast<cudaStream_t>(stream);
    jpeg_samples_kernel<<<pieces, kPieces, 0, on>>>(batch.memory, batch.places);
    if (const cudaError_t status = cudaGetLastError(); status != cudaSuccess) {
        throw CudaError({.where = "jpeg_samples_kernel",
                         .expected = "a launch over " + std::to_string(batch.n) + " crops",
                         .got = cudaGetErrorString(status)});
    }
}

}  // namespace stoker
