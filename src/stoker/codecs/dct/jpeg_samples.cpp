// As T.81, annex F describes it.
#include "stoker/codecs/dct/jpeg_samples.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "stoker/codecs/jpeg/block_kernels.h"

namespace stoker {
namespace {

constexpr int kUnknown = -1;

// Reads the bits of one piece.
class BitReader {
  public:
    BitReader(const std::byte* bytes, const JpegPiece& piece) : bytes_(bytes), bit_(piece.bit), end_(piece.end) {}

    // 0 beyond the end.
    int bit() {
        const std::uint32_t at = bit_++;
        return at < end_ ? std::to_integer<int>(bytes_[at / 8]) >> (7 - at % 8) & 1 : 0;
    }
    int bits(int count) {
        int value = 0;
        for (; count > 0; --count) {
            value = 2 * value + bit();
        }
        return value;
    }
    // A code's symbol, or kUnknown.
    int symbol(const JpegCodes& codes) {
        std::uint32_t code = 0;
        for (unsigned length = 1; length <= 16; ++length) {
            code = 2 * code + static_cast<std::uint32_t>(bit());
            if (code << (16 - length) < codes.limits[length]) {
                return codes.symbols[(code + codes.offsets[length]) & 255];
            }
        }
        return kUnknown;
    }
    // A value of `size` bits: those whose first bit is 0 are negative.
    int value(int size) {
        const int number = bits(size);
        return size > 0 && number >> (size - 1) == 0 ? number - (1 << size) + 1 : number;
    }
    bool beyond() const { return bit_ > end_; }
    bool at_end() const { return bit_ == end_; }

  private:
    const std::byte* bytes_;
    std::uint32_t bit_;
    std::uint32_t end_;
};

// (8, 8), natural order. `dc`: of the block before; becomes this one's. False for invalid bits.
bool read_block(BitReader& reader, const JpegCodes& dc_codes, const JpegCodes& ac_codes, int& dc, std::int16_t* block) {
    using Limits = std::numeric_limits<std::int16_t>;
    const int size = reader.symbol(dc_codes);
    if (size == kUnknown) {
        return false;
    }
    dc += reader.value(size);
    if (dc < Limits::min() || dc > Limits::max()) {
        return false;
    }
    block[0] = static_cast<std::int16_t>(dc);
    for (std::size_t k = 1; k < kBlockSize; ++k) {
        const int symbol = reader.symbol(ac_codes);
        if (symbol == kUnknown) {
            return false;
        }
        if (symbol % 16 == 0 && symbol != 0xf0) {  // an end of block
            break;
        }
        k += static_cast<std::size_t>(symbol / 16);
        if (k >= kBlockSize) {
            return false;
        }
        block[kZigzag[k]] = static_cast<std::int16_t>(reader.value(symbol % 16));
    }
    return !reader.beyond();
}

// Block `row`, `column` of the component, if the plane has it.
void write_block(const DctCrop& head, int component, int row, int column, const std::int16_t* block,
                 std::uint8_t* samples) {
    const DctCropPlane& plane = head.planes[component];
    const std::uint32_t end =
        component + 1 < static_cast<int>(head.components) ? head.planes[component + 1].at : head.samples;
    const int y = kBlockSide * row - plane.top;
    const int x = kBlockSide * column - plane.left;
    if (y < 0 || x < 0 || x >= plane.stride || y >= static_cast<int>(end - plane.at) / plane.stride) {
        return;
    }
    std::uint8_t out[kBlockSide][4 * kBlockSide];
    kPlainBlockKernels.inverse_dct(block, plane.quant, 1, out[0], sizeof out[0]);
    for (int v = 0; v < kBlockSide; ++v) {
        std::memcpy(samples + plane.at + (y + v) * plane.stride + x, out[v], kBlockSide);
    }
}

bool write_piece(const std::byte* crop, const JpegPiece& piece, std::uint8_t* samples) {
    const DctCrop& head = *reinterpret_cast<const DctCrop*>(crop);
    const JpegScan& scan = *reinterpret_cast<const JpegScan*>(crop + sizeof head);
    alignas(64) std::int16_t blocks[4 * kBlockSize] = {};  // the kernel reads and writes four
    int dc[3] = {piece.dc[0], piece.dc[1], piece.dc[2]};
    BitReader reader(crop + scan.bytes, piece);
    bool good = true;
    for (int mcu = piece.mcu_column; mcu < piece.mcu_column + piece.count; ++mcu) {
        for (std::uint32_t i = 0; i < scan.mcu_blocks; ++i) {
            const JpegMcuBlock& place = scan.blocks[i];
            std::fill_n(blocks, kBlockSize, std::int16_t{0});
            good = good && read_block(reader, scan.codes[place.dc], scan.codes[place.ac], dc[place.component], blocks);
            if (!good) {
                std::fill_n(blocks, kBlockSize, std::int16_t{0});
            }
            write_block(head, place.component, piece.mcu_row * place.v + place.row, mcu * place.h + place.column,
                        blocks, samples);
        }
    }
    return good && reader.at_end() && std::equal(dc, dc + head.components, piece.end_dc);
}

}  // namespace

bool jpeg_samples(const std::byte* crop, std::uint8_t* samples) {
    const DctCrop& head = *reinterpret_cast<const DctCrop*>(crop);
    const auto* const pieces = reinterpret_cast<const JpegPiece*>(crop + sizeof(DctCrop) + sizeof(JpegScan));
    bool good = true;
    for (std::uint32_t i = 0; i < head.pieces; ++i) {
        good = write_piece(crop, pieces[i], samples) && good;
    }
    return good;
}

}  // namespace stoker
