// Plain loops with factors of 12 fraction bits, so the samples are the same on every processor.
#include "stoker/codecs/jpeg/block_kernels.h"

#include <algorithm>

namespace stoker {
namespace {

constexpr int kBits = 12;

// factor[u][n]: how much frequency u adds to sample n. Coefficients of an 8-sample DCT are sqrt(8 / side) times those
// of a DCT of `side` samples; the factors include that scale.
struct Basis {
    std::int32_t factor[4][4];
};
// side 4: 1/sqrt(8), then cos((2 n + 1) u pi / 8) / 2
constexpr Basis kBasis4 = {
    {{1448, 1448, 1448, 1448}, {1892, 784, -784, -1892}, {1448, -1448, -1448, 1448}, {784, -1892, 1892, -784}}};
// side 2: 1/sqrt(8), with either sign
constexpr Basis kBasis2 = {{{1448, 1448, 0, 0}, {1448, -1448, 0, 0}, {}, {}}};

template <int side>
void scaled_block(const std::int16_t* block, const std::uint16_t* quant, const Basis& basis, std::uint8_t* out,
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

void scaled_inverse_dct(const std::int16_t* blocks, const std::uint16_t* quant, int side, int count, std::uint8_t* out,
                        std::ptrdiff_t stride) {
    for (int i = 0; i < count; ++i, blocks += 64, out += side) {
        if (side == 4) {
            scaled_block<4>(blocks, quant, kBasis4, out, stride);
        } else if (side == 2) {
            scaled_block<2>(blocks, quant, kBasis2, out, stride);
        } else {
            const int mean = (blocks[0] * quant[0] + 4) >> 3;
            out[0] = static_cast<std::uint8_t>(std::clamp(mean + 128, 0, 255));
        }
    }
}

}  // namespace stoker
