// Plain loops with fixed-point factors of 12 bits: the same samples on every processor.
#include "stoker/codecs/jpeg/reduced_dct.h"

#include <algorithm>

namespace stoker {
namespace {

constexpr int kBits = 12;

// Row u: what frequency u adds to each sample, for the DCT of `side` samples with the amplitudes of 8: an 8-sample
// DCT's values are sqrt(8 / side) times too large in each direction.
struct Basis {
    std::int32_t factor[4][4];
};
// side 4: 1/sqrt(8), then cos((2 n + 1) u pi / 8) / 2
constexpr Basis kBasis4 = {
    {{1448, 1448, 1448, 1448}, {1892, 784, -784, -1892}, {1448, -1448, -1448, 1448}, {784, -1892, 1892, -784}}};
// side 2: 1/sqrt(8), with either sign
constexpr Basis kBasis2 = {{{1448, 1448, 0, 0}, {1448, -1448, 0, 0}, {}, {}}};

template <int side>
void reduced_block(const std::int16_t* block, const std::uint16_t* quant, const Basis& basis, std::uint8_t* out,
                   std::ptrdiff_t stride) {
    std::int64_t columns[side][side] = {};  // (sample y, frequency u)
    for (int v = 0; v < side; ++v) {
        for (int u = 0; u < side; ++u) {
            const std::int64_t value = std::int64_t{block[8 * v + u]} * quant[8 * v + u];
            for (int y = 0; y < side; ++y) {
                columns[y][u] += value * basis.factor[v][y];
            }
        }
    }
    for (int y = 0; y < side; ++y) {
        for (int x = 0; x < side; ++x) {
            std::int64_t sum = std::int64_t{1} << (2 * kBits - 1);
            for (int u = 0; u < side; ++u) {
                sum += columns[y][u] * basis.factor[u][x];
            }
            out[y * stride + x] =
                static_cast<std::uint8_t>(std::clamp<std::int64_t>((sum >> (2 * kBits)) + 128, 0, 255));
        }
    }
}

}  // namespace

void reduced_inverse_dct(const std::int16_t* blocks, const std::uint16_t* quant, int side, int count, std::uint8_t* out,
                         std::ptrdiff_t stride) {
    for (int i = 0; i < count; ++i, blocks += 64, out += side) {
        if (side == 4) {
            reduced_block<4>(blocks, quant, kBasis4, out, stride);
        } else if (side == 2) {
            reduced_block<2>(blocks, quant, kBasis2, out, stride);
        } else {
            const int mean = (blocks[0] * quant[0] + 4) >> 3;
            out[0] = static_cast<std::uint8_t>(std::clamp(mean + 128, 0, 255));
        }
    }
}

}  // namespace stoker
