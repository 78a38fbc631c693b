// The decoder of scan_kernels.cpp and scan_kernels_avx2.cpp, which are compiled for different processors: everything
// here has internal linkage.
#pragma once

#include <array>
#include <bit>
#include <cstring>

#include "stoker/codecs/jpeg/jpeg_frame.h"
#include "stoker/codecs/jpeg/scan_kernels.h"

namespace stoker {
namespace {

// More lanes, or more look-ups in a turn, are not faster.
constexpr std::size_t kLanes = 3;

// Zigzag index to natural order. Indices beyond a block's end, after an end of block, map to the last one, which is
// zero then, as is the value that they get.
constexpr auto kNatural = [] {
    std::array<std::uint8_t, 512> natural{};
    natural.fill(kBlockSize - 1);
    for (std::size_t k = 0; k < kBlockSize; ++k) {
        natural[k] = kZigzag[k];
    }
    return natural;
}();

// True for places that only a run beyond the block's end reaches.
bool is_beyond(unsigned k) {
    return k - kBlockSize < HuffmanTable::kEnd - kBlockSize;
}

// GCC makes a slow string instruction of memset.
void clear(std::int16_t* block) {
    using Vector [[gnu::vector_size(32), gnu::may_alias]] = std::int16_t;
    auto* const vectors = reinterpret_cast<Vector*>(block);
    for (std::size_t i = 0; i < kBlockSize * sizeof *block / sizeof(Vector); ++i) {
        vectors[i] = Vector{};
    }
}

class Lanes {
  public:
    Lanes(const ScanLayout& layout, const std::uint8_t* bytes, std::span<ScanPiece> pieces, std::int16_t* blocks)
        : layout_(layout), bytes_(bytes), pieces_(pieces), blocks_(blocks) {}

    void decode() {
        if (pieces_.size() == 1) {
            Lane lane;
            start(lane);
            finish(lane);
            return;
        }
        std::array<Lane, kLanes> lanes;
        std::size_t busy = 0;
        while (busy < kLanes && start(lanes[busy])) {
            ++busy;
        }
        if (busy == kLanes) {
            while (turn(lanes[0]) && turn(lanes[1]) && turn(lanes[2])) {
            }
        }
        for (std::size_t i = 0; i < busy; ++i) {
            if (!lanes[i].done) {
                finish(lanes[i]);
            }
        }
    }

  private:
    struct Lane {
        std::uint64_t bit = 0;
        unsigned k = 0;  // of the next coefficient
        std::int16_t* out = nullptr;
        const HuffmanTable* ac = nullptr;
        int block = 0;  // of the MCU
        std::uint32_t row = 0;
        std::uint32_t column = 0;
        std::uint32_t left = 0;  // MCUs, with this one
        std::array<int, 3> dc{};
        ScanPiece* piece = nullptr;
        bool done = false;
    };

    // At least 57 bits.
    std::uint64_t bits_at(std::uint64_t bit) const {
        std::uint64_t word = 0;
        std::memcpy(&word, bytes_ + (bit >> 3), sizeof word);
        if constexpr (std::endian::native == std::endian::little) {
            word = __builtin_bswap64(word);
        }
        return word << (bit & 7);
    }

    // Takes the next piece. False: there is none.
    [[gnu::always_inline]] bool start(Lane& lane) {
        if (next_ == pieces_.size()) {
            lane.done = true;
            return false;
        }
        ScanPiece& piece = pieces_[next_++];
        lane = {.bit = piece.bit,
                .row = piece.first / layout_.mcus_wide,
                .column = piece.first % layout_.mcus_wide,
                .left = piece.count,
                .dc = piece.dc,
                .piece = &piece};
        start_block(lane);
        return true;
    }

    [[gnu::always_inline]] void start_block(Lane& lane) const {
        const ScanLayout::Block& block = layout_.blocks[static_cast<std::size_t>(lane.block)];
        lane.out = blocks_ + kBlockSize * (block.start + lane.row * block.row_step + lane.column * block.column_step);
        clear(lane.out);
        const std::uint64_t bits = bits_at(lane.bit);
        HuffmanTable::Entry entry = block.dc->pair(bits).first;
        if (entry.empty()) {
            entry = block.dc->long_entry(bits);
        }
        lane.bit += entry.length();
        int& dc = lane.dc[static_cast<std::size_t>(block.component)];
        dc += entry.value();
        lane.out[0] = static_cast<std::int16_t>(dc);
        if (lane.out[0] != dc || lane.bit > lane.piece->limit + 64) {
            throw HuffmanError{};
        }
        lane.k = 1;
        lane.ac = block.ac;
    }

    // The block is complete. False: so are all pieces.
    [[gnu::always_inline]] bool end_block(Lane& lane) {
        if (++lane.block == layout_.mcu_blocks) {
            lane.block = 0;
            if (--lane.left == 0) {
                lane.piece->bit = lane.bit;
                lane.piece->dc = lane.dc;
                return start(lane);
            }
            if (++lane.column == layout_.mcus_wide) {
                lane.column = 0;
                ++lane.row;
            }
        }
        start_block(lane);
        return true;
    }

    // Calls would cost a quarter more on Zen 3.
    [[gnu::always_inline]] bool turn(Lane& lane) { return step<2>(lane); }

    [[gnu::noinline]] void finish(Lane& other) {
        Lane lane = other;
        while (step<5>(lane)) {
        }
        other.done = true;
    }

    // At most so many look-ups, whose bits are fetched once. False: all pieces are decoded.
    template <int kLookUps>
    [[gnu::always_inline]] bool step(Lane& lane) {
        static_assert(kLookUps * HuffmanTable::kBits <= 57);
        const HuffmanTable& ac = *lane.ac;
        std::int16_t* out = lane.out;
        std::uint64_t bit = lane.bit;
        unsigned k = lane.k;
        std::uint64_t bits = bits_at(bit);
        for (int i = 0; i < kLookUps; ++i) {
            const HuffmanTable::Pair pair = ac.pair(bits);
            if (pair.first.empty()) [[unlikely]] {
                const Position at = long_step(ac, out, bits_at(bit), bit, k);
                lane.bit = at.bit;
                lane.k = at.k;
                return at.k < kBlockSize || end_block(lane);
            }
            const unsigned first = k + pair.first.run();
            k += pair.last.run();
            out[kNatural[first]] = pair.first.value();
            out[kNatural[k]] = pair.last.value();
            bits <<= pair.last.length();
            bit += pair.last.length();
            if (k < kBlockSize - 1) {
                ++k;
                continue;
            }
            if (first == kBlockSize - 1) [[unlikely]] {  // the second code is the next block's
                out[kBlockSize - 1] = pair.first.value();
                bit += pair.first.length() - std::uint64_t{pair.last.length()};
            } else if (is_beyond(first) || is_beyond(k)) [[unlikely]] {
                throw HuffmanError{};
            }
            lane.bit = bit;
            return end_block(lane);
        }
        lane.bit = bit;
        lane.k = k;
        return true;
    }

    struct Position {
        std::uint64_t bit;
        unsigned k;
    };

    [[gnu::noinline]] static Position long_step(const HuffmanTable& ac, std::int16_t* out, std::uint64_t bits,
                                                std::uint64_t bit, unsigned k) {
        const HuffmanTable::Entry entry = ac.long_entry(bits);
        k += entry.run();
        if (is_beyond(k)) {
            throw HuffmanError{};
        }
        out[kNatural[k]] = entry.value();
        return {bit + entry.length(), k + 1};
    }

    const ScanLayout& layout_;
    const std::uint8_t* bytes_;
    std::span<ScanPiece> pieces_;
    std::int16_t* blocks_;
    std::size_t next_ = 0;
};

void decode_pieces(const ScanLayout& layout, const std::uint8_t* bytes, std::span<ScanPiece> pieces,
                   std::int16_t* blocks) {
    Lanes(layout, bytes, pieces, blocks).decode();
}

}  // namespace
}  // namespace stoker
