// The model of dct-ans (FORMAT.md): which table of frequencies codes a symbol. A table is chosen by what a reader knows
// before it reads the symbol, so the tables of a whole list of symbols are known before the list is decoded. The tables
// are part of the format (ans_tables.cpp). Internal to codecs/.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace stoker {

inline constexpr int kAnsBits = 9;
inline constexpr std::uint32_t kAnsSlots = 1U << kAnsBits;  // the sum of a table's frequencies
inline constexpr std::size_t kAnsLanes = 32;                // symbol i of a list is coded in lane i % kAnsLanes
inline constexpr std::uint32_t kAnsLow = 1U << 16;          // a lane's state is never below
inline constexpr int kAnsSymbols = 64;
inline constexpr int kAnsNibbles = 16;  // four coefficients each

inline constexpr int kCountTables = 10;
inline constexpr int kScaleTables = 8;
inline constexpr int kDcTables = 8;
inline constexpr int kMaskTables = 32;
inline constexpr int kValueTables = 24;
inline constexpr int kAnsTables = kCountTables + kScaleTables + kDcTables + kMaskTables + kValueTables;
// A table of symbol 0 only. It takes zero bits, and decoding it does not change a state.
inline constexpr std::uint8_t kAnsSure = kAnsTables;

inline constexpr int kAnsScales = 12;  // a block's scale is 0 to 11

// The tables as ans_tables.cpp lists them: frequencies by table and symbol, and tables by context.
struct AnsSpecification {
    const std::uint16_t (&count_frequencies)[kCountTables][64];
    const std::uint16_t (&scale_frequencies)[kScaleTables][kAnsScales];
    const std::uint16_t (&dc_frequencies)[kDcTables][32];
    const std::uint16_t (&mask_frequencies)[kMaskTables][16];
    const std::uint16_t (&value_frequencies)[kValueTables][31];
    const std::uint8_t (&count_table)[2][2][22];           // chroma, odd column, class of the neighbours' counts
    const std::uint8_t (&scale_table)[17][8][2];           // class of the neighbours' scales, of the count; odd column
    const std::uint8_t (&dc_table)[2][8][8];               // chroma, class of the count, scale
    const std::uint8_t (&mask_table)[2][kAnsNibbles][14];  // chroma, nibble, class of the count left
    const std::uint8_t (&value_table)[2][kAnsScales][9][11];  // chroma, scale, class of the count, of the number
};
extern const AnsSpecification kAnsSpecification;

struct AnsModel {
    static constexpr std::uint8_t kNoCounts = 255;  // instead of a sum: a block without neighbours
    static constexpr std::uint8_t kNoScales = 63;
    static constexpr std::uint8_t kNoSymbol = 255;  // instead of a mask's table: no coefficient is left
    static constexpr std::uint8_t kAllSet = 254;    // all coefficients that are left must be set

    // Numbers of tables.
    std::uint8_t count[2][2][256] = {};                         // chroma, odd column, sum of four neighbours' counts
    std::uint8_t scale[2][64][64] = {};                         // odd column, sum of four neighbours' scales, count
    std::uint8_t dc[2][64][kAnsScales] = {};                    // chroma, count, scale
    alignas(64) std::uint8_t mask[2][kAnsNibbles][64] = {};     // chroma, nibble, count left
    alignas(64) std::uint8_t value[2][kAnsScales][9][64] = {};  // chroma, scale, count_class, number - 1
    std::uint8_t count_class[64] = {};                          // of a count, for `value`
    std::uint16_t frequency[kAnsTables + 1][kAnsSymbols] = {};  // by table and symbol
    std::uint16_t start[kAnsTables + 1][kAnsSymbols] = {};      // the sum of the frequencies before
    std::vector<std::uint32_t> slots;  // (kAnsTables + 1, kAnsSlots): symbol << 24 | frequency << 12 | place within

    AnsModel();
};

// Built at the first call.
const AnsModel& ans_model();

// A magnitude of 1 to 32768 is a symbol and a number of `bits` bits: 1 to 16 have their own symbols, then two symbols
// share each octave up to 256, then one.
struct AnsMagnitude {
    std::uint8_t symbol = 0;
    std::uint8_t bits = 0;
    std::uint16_t rest = 0;
};
inline constexpr int kAnsOwn = 16;  // symbols without bits

constexpr AnsMagnitude ans_magnitude(std::uint32_t magnitude) {
    const std::uint32_t u = magnitude - 1;
    if (u < kAnsOwn) {
        return {.symbol = static_cast<std::uint8_t>(u), .bits = 0, .rest = 0};
    }
    const int octave = 31 - std::countl_zero(u);  // 4 to 14
    const int bits = octave < 8 ? octave - 1 : octave;
    const auto symbol = octave < 8 ? 16 + 2 * (octave - 4) + static_cast<int>(u >> bits & 1) : 16 + octave;
    return {.symbol = static_cast<std::uint8_t>(symbol),
            .bits = static_cast<std::uint8_t>(bits),
            .rest = static_cast<std::uint16_t>(u & ((1U << bits) - 1))};
}

// The smallest magnitude of each symbol, and its number of bits.
struct AnsMagnitudes {
    std::uint16_t base[32] = {};
    std::uint8_t bits[32] = {};

    constexpr AnsMagnitudes() {
        for (std::size_t s = 0; s < kAnsOwn; ++s) {
            base[s] = static_cast<std::uint16_t>(s + 1);
        }
        for (std::size_t s = kAnsOwn; s < 31; ++s) {
            const std::size_t octave = s < 24 ? 4 + (s - kAnsOwn) / 2 : s - 16;
            const std::size_t half = s < 24 ? s % 2 << (octave - 1) : 0;
            base[s] = static_cast<std::uint16_t>((std::size_t{1} << octave) + half + 1);
            bits[s] = static_cast<std::uint8_t>(s < 24 ? octave - 1 : octave);
        }
    }
};
inline constexpr AnsMagnitudes kAnsMagnitudes;

// The class of a block's magnitudes: the smallest number s with count << s >= their sum, at most 11.
constexpr int ans_scale(std::uint32_t sum, std::uint32_t count) {
    int scale = 0;
    while (count != 0 && scale < kAnsScales - 1 && count << scale < sum) {
        ++scale;
    }
    return scale;
}

// Predicts a DC from those to the left, above, and above and to the left (T.87, A.4.1).
constexpr int ans_predict_dc(int left, int above, int corner) {
    const int low = left < above ? left : above;
    const int high = left < above ? above : left;
    const int plane = left + above - corner;
    return corner >= high ? low : corner <= low ? high : plane;
}

}  // namespace stoker
