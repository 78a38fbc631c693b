// Byte-shuffle tables that interleave three planes. Internal to codecs/.
#pragma once

#include <cstdint>

namespace stoker {
namespace {

// For output register k of three, each of `lanes` bytes: byte j is channel (k * lanes + j) % 3 of pixel
// (k * lanes + j) / 3. `pixel[k][c][j]` is that pixel if the channel is c, else `kNone`.
template <int lanes>
struct RgbShuffle {
    static constexpr std::uint8_t kNone = 0x80;  // pshufb writes 0 there
    alignas(64) std::uint8_t pixel[3][3][lanes];

    constexpr RgbShuffle() : pixel() {
        for (int k = 0; k < 3; ++k) {
            for (int j = 0; j < lanes; ++j) {
                const int place = k * lanes + j;
                for (int c = 0; c < 3; ++c) {
                    pixel[k][c][j] = place % 3 == c ? static_cast<std::uint8_t>(place / 3) : kNone;
                }
            }
        }
    }
};

}  // namespace
}  // namespace stoker
