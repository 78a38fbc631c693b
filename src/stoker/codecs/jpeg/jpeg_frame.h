// The geometry of a JPEG's blocks, from its frame header. Shared by all code that works on quantised coefficients: the
// dct codec, our Huffman decoder and BlockDecoder. Internal to codecs/.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace stoker {

enum class FrameColor : std::uint8_t { grey = 0, ycc = 1, rgb = 2 };

inline constexpr int kBlockSide = 8;
inline constexpr int kBlockSize = 64;

// Coefficients are in natural order, row by row: index = 8 * v + u. kZigzag[k] is the natural index of the k-th
// coefficient in the file's zigzag order.
inline constexpr std::array<std::uint8_t, kBlockSize> kZigzag = {
    0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,  12, 19, 26, 33, 40, 48,
    41, 34, 27, 20, 13, 6,  7,  14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23,
    30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63};

struct FrameComponent {
    int h = 1;  // sampling factors
    int v = 1;
    int width = 0;  // in samples, without padding to whole blocks
    int height = 0;
    int blocks_wide = 0;  // stored blocks: padded to whole MCUs
    int blocks_high = 0;
    alignas(64) std::array<std::uint16_t, kBlockSize> quant{};  // natural order
};

struct JpegFrame {
    int width = 0;
    int height = 0;
    int components = 0;  // 1 or 3
    FrameColor color = FrameColor::grey;
    int h_max = 1;
    int v_max = 1;
    int mcus_wide = 0;
    int mcus_high = 0;
    std::array<FrameComponent, 3> component;

    // Computes all other members from width, height, components and the sampling factors. A single component is
    // not interleaved, so its MCU is one block whatever its factors are (T.81, A.2.2).
    void compute_layout() {
        const auto parts = [](int whole, int part) { return (whole + part - 1) / part; };
        if (components == 1) {
            component[0].h = component[0].v = 1;
        }
        h_max = v_max = 1;
        for (int c = 0; c < components; ++c) {
            h_max = component[at(c)].h > h_max ? component[at(c)].h : h_max;
            v_max = component[at(c)].v > v_max ? component[at(c)].v : v_max;
        }
        mcus_wide = parts(width, kBlockSide * h_max);
        mcus_high = parts(height, kBlockSide * v_max);
        for (int c = 0; c < components; ++c) {
            FrameComponent& comp = component[at(c)];
            comp.width = parts(width * comp.h, h_max);
            comp.height = parts(height * comp.v, v_max);
            comp.blocks_wide = mcus_wide * comp.h;
            comp.blocks_high = mcus_high * comp.v;
        }
    }

    // True if each component's size is the image's divided by an integer. BlockDecoder needs this.
    bool has_integer_ratios() const {
        for (int c = 0; c < components; ++c) {
            if (h_max % component[at(c)].h != 0 || v_max % component[at(c)].v != 0) {
                return false;
            }
        }
        return true;
    }

    static constexpr std::size_t at(int c) { return static_cast<std::size_t>(c); }
};

// A source of quantised coefficients, one block row at a time.
class BlockRows {
  public:
    virtual ~BlockRows() = default;
    // Tells before that only blocks of MCUs before row `end_row`, in these columns, will be asked for.
    virtual void want(int /*end_row*/, int /*first_column*/, int /*end_column*/) {}
    // Blocks first ... first + count - 1 of a component's block row: (count, 8, 8) in natural order, aligned to
    // 64 bytes, with readable memory up to the next multiple of 4 blocks. Valid until the next call.
    // Callers ask for each block row at most once, in the order of the MCU rows.
    virtual const std::int16_t* blocks(int component, int block_row, int first, int count) = 0;
};

}  // namespace stoker
