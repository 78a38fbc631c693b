// A slow reader of dct-ans groups, written after FORMAT.md: one symbol at a time, from the specification's tables.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "stoker/codecs/dct/ans_group.h"
#include "stoker/codecs/jpeg/jpeg_frame.h"

namespace stoker::testing {

class AnsReference {
  public:
    using Blocks = std::vector<std::int16_t>;  // (rows, wide, 8, 8), natural order

    // The blocks of each plane; empty for an invalid group.
    static std::optional<std::vector<Blocks>> read(std::span<const std::byte> group, std::span<const AnsPlane> planes) {
        AnsReference reader(group, planes);
        if (!reader.read_all()) {
            return std::nullopt;
        }
        std::vector<Blocks> out;
        for (const Plane& plane : reader.planes_) {
            out.emplace_back();
            for (const Block& block : plane.blocks) {
                out.back().insert(out.back().end(), block.values, block.values + kBlockSize);
            }
        }
        return out;
    }

  private:
    struct Block {
        int count = 0;
        int scale = 0;
        int dc_symbol = 0;
        int left = 0;
        std::uint64_t mask = 0;
        std::vector<int> symbols;
        std::int16_t values[kBlockSize] = {};
    };
    struct Plane {
        int chroma = 0;
        int wide = 0;
        int rows = 0;
        std::vector<Block> blocks;

        Block& at(int x, int y) { return blocks[static_cast<std::size_t>(y * wide + x)]; }
    };

    AnsReference(std::span<const std::byte> group, std::span<const AnsPlane> planes) : bytes_(group) {
        for (const AnsPlane& plane : planes) {
            planes_.push_back({.chroma = planes_.empty() ? 0 : 1,
                               .wide = static_cast<int>(plane.wide),
                               .rows = static_cast<int>(plane.rows),
                               .blocks = std::vector<Block>(plane.wide * plane.rows)});
            rows_ = std::max(rows_, planes_.back().rows);
        }
    }

    std::uint32_t number(std::size_t at, std::size_t size) const {
        std::uint32_t value = 0;
        for (std::size_t i = 0; i < size; ++i) {
            value |= std::to_integer<std::uint32_t>(bytes_[at + i]) << (8 * i);
        }
        return value;
    }

    // The number of limits that a value has reached.
    static int class_of(int value, std::initializer_list<int> limits) {
        return static_cast<int>(std::ranges::count_if(limits, [value](int limit) { return value >= limit; }));
    }
    static int class_of_count(int count) { return class_of(count, {1, 2, 4, 7, 11, 17, 26}); }

    // The next symbol of the list that is being read.
    template <typename Frequencies>
    int symbol(const Frequencies& frequencies) {
        std::uint32_t& x = states_[in_list_++ % 32];
        std::uint32_t slot = x % 512;
        int found = 0;
        while (slot >= frequencies[found]) {
            slot -= frequencies[found++];
        }
        x = frequencies[found] * (x / 512) + slot;
        if (x < 65536) {
            x = x << 16 | (words_ > 0 && at_ + 2 <= bytes_.size() ? number(at_, 2) : 0);
            at_ += 2;
            good_ = good_ && words_ > 0;
            words_ -= words_ > 0 ? 1 : 0;
        }
        return found;
    }

    bool read_all() {
        if (bytes_.size() < 132 || number(0, 4) > (bytes_.size() - 132) / 2) {
            return false;
        }
        words_ = number(0, 4);
        for (std::size_t i = 0; i < 32; ++i) {
            states_.push_back(number(4 + 4 * i, 4));
            good_ = good_ && states_.back() >= 65536;
        }
        at_ = 132;
        return good_ && read_counts() && read_scales() && read_dc_symbols() && read_masks() && read_symbols() &&
               read_numbers();
    }

    // Twice the number above and those of two more neighbours; -1 if there are none.
    static int sum_of(Plane& plane, int x, int y, int Block::*number) {
        const int above = y > 0 ? plane.at(x, y - 1).*number : 0;
        if (x % 2 == 0) {
            const int before = y > 0 && x > 0 ? plane.at(x - 1, y - 1).*number : above;
            const int after = y > 0 && x + 1 < plane.wide ? plane.at(x + 1, y - 1).*number : above;
            return y > 0 ? 2 * above + before + after : -1;
        }
        const int before = plane.at(x - 1, y).*number;
        const int after = x + 1 < plane.wide ? plane.at(x + 1, y).*number : before;
        return y > 0 ? 2 * above + before + after : 2 * (before + after);
    }

    template <typename Read>
    bool half_rows(Read read) {
        for (int y = 0; y < rows_; ++y) {
            for (int odd = 0; odd < 2; ++odd, in_list_ = 0) {
                for (Plane& plane : planes_) {
                    for (int x = odd; y < plane.rows && x < plane.wide; x += 2) {
                        read(plane, x, y, odd);
                    }
                }
            }
        }
        return good_;
    }

    bool read_counts() {
        return half_rows([this](Plane& plane, int x, int y, int odd) {
            const int sum = sum_of(plane, x, y, &Block::count);
            const int sums = sum < 0 ? 21 : class_of(sum, {1,  5,  9,  13, 17, 21,  25,  29,  33,  41,
                                                           49, 57, 69, 81, 97, 113, 133, 157, 181, 209});
            Block& block = plane.at(x, y);
            block.count = symbol(tables_.count_frequencies[tables_.count_table[plane.chroma][odd][sums]]);
            block.left = block.count;
        });
    }

    bool read_scales() {
        return half_rows([this](Plane& plane, int x, int y, int odd) {
            const int sum = sum_of(plane, x, y, &Block::scale);
            Block& block = plane.at(x, y);
            const int sums = sum < 0 ? 16 : std::min((sum + 1) / 2, 15);
            block.scale =
                symbol(tables_.scale_frequencies[tables_.scale_table[sums][class_of_count(block.count)][odd]]);
        });
    }

    bool read_dc_symbols() {
        for (Plane& plane : planes_) {
            for (Block& block : plane.blocks) {
                const int table = tables_.dc_table[plane.chroma][class_of_count(block.count)][std::min(block.scale, 7)];
                block.dc_symbol = symbol(tables_.dc_frequencies[table]);
            }
        }
        in_list_ = 0;
        return good_;
    }

    bool read_masks() {
        for (int g = 0; g < 16; ++g, in_list_ = 0) {
            const int all = g == 15 ? 7 : 15;
            for (Plane& plane : planes_) {
                for (Block& block : plane.blocks) {
                    const int left = block.left & 63;  // damaged counts may be exceeded
                    int bits = 0;
                    if (left >= 63 - 4 * g) {
                        bits = all;
                    }
                    if (left > 0 && left < 63 - 4 * g) {
                        const int kind = class_of(left, {2, 3, 4, 5, 6, 8, 10, 13, 17, 22, 28, 35, 44});
                        bits = symbol(tables_.mask_frequencies[tables_.mask_table[plane.chroma][g][kind]]) & all;
                    } else if (left == 0) {
                        bits = 0;
                    }
                    block.mask |= static_cast<std::uint64_t>(bits) << (4 * g);
                    block.left -= std::popcount(static_cast<unsigned>(bits));
                }
            }
        }
        for (const Plane& plane : planes_) {
            for (const Block& block : plane.blocks) {
                good_ = good_ && block.left == 0;
            }
        }
        return good_;
    }

    bool read_symbols() {
        for (Plane& plane : planes_) {
            for (Block& block : plane.blocks) {
                const int counts = class_of(block.count, {2, 4, 7, 11, 16, 22, 30, 40});
                for (int k = 1; k < 64; ++k) {
                    if ((block.mask >> (k - 1) & 1) == 0) {
                        continue;
                    }
                    const int numbers = class_of(k, {2, 3, 4, 6, 10, 15, 21, 28, 36, 45});
                    const int table = tables_.value_table[plane.chroma][block.scale][counts][numbers];
                    in_list_ += block.scale == 0 ? 1 : 0;
                    block.symbols.push_back(block.scale == 0 ? 0 : symbol(tables_.value_frequencies[table]));
                }
            }
        }
        return good_ && words_ == 0;
    }

    bool take_bit(std::size_t& bit) {
        const bool exists = bit / 8 < bytes_.size();
        good_ = good_ && exists;
        const bool set = exists && (std::to_integer<int>(bytes_[bit / 8]) >> (bit % 8) & 1) != 0;
        ++bit;
        return set;
    }

    bool take_sign() {
        const std::size_t sign = sign_++;
        if (sign < 512) {
            return (states_[sign / 16] >> (sign % 16) & 1) != 0;
        }
        std::size_t bit = 8 * at_ + sign - 512;
        return take_bit(bit);
    }

    // A magnitude's bits, in the place of `bit_`.
    int take_number(int symbol) {
        const bool negative = take_sign();
        int magnitude = symbol + 1;
        if (symbol >= 16) {
            const int octave = symbol < 24 ? 4 + (symbol - 16) / 2 : symbol - 16;
            const int bits = symbol < 24 ? octave - 1 : octave;
            int rest = 0;
            for (int i = 0; i < bits; ++i) {
                rest |= take_bit(bit_) ? 1 << i : 0;
            }
            magnitude = 1 + (1 << octave) + (symbol < 24 && symbol % 2 == 1 ? 1 << bits : 0) + rest;
        }
        return negative ? -magnitude : magnitude;
    }

    bool read_numbers() {
        std::size_t signs = 0;
        for (const Plane& plane : planes_) {
            for (const Block& block : plane.blocks) {
                signs += block.symbols.size() + (block.dc_symbol != 0 ? 1 : 0);
            }
        }
        for (const std::uint32_t x : states_) {
            good_ = good_ && x >> 16 == 1;
        }
        const std::size_t bytes = std::max<std::size_t>((signs + 7) / 8, 64) - 64;
        good_ = good_ && bytes <= bytes_.size() - at_;
        bit_ = 8 * (at_ + bytes);
        for (Plane& plane : planes_) {
            for (int y = 0; good_ && y < plane.rows; ++y) {
                for (int x = 0; x < plane.wide; ++x) {
                    read_dc(plane, x, y);
                }
            }
        }
        for (Plane& plane : planes_) {
            for (Block& block : plane.blocks) {
                std::size_t next = 0;
                for (std::size_t k = 1; good_ && k < 64; ++k) {
                    if ((block.mask >> (k - 1) & 1) != 0) {
                        block.values[kZigzag[k]] = static_cast<std::int16_t>(take_number(block.symbols[next++]));
                    }
                }
            }
        }
        return good_;
    }

    void read_dc(Plane& plane, int x, int y) {
        Block& block = plane.at(x, y);
        const int step = block.dc_symbol == 0 ? 0 : take_number(block.dc_symbol - 1);
        const int left = x > 0 ? plane.at(x - 1, y).values[0] : 0;
        const int above = y > 0 ? plane.at(x, y - 1).values[0] : 0;
        int guess = x > 0 ? left : above;
        if (x > 0 && y > 0) {
            const int corner = plane.at(x - 1, y - 1).values[0];
            guess = std::clamp(left + above - corner, std::min(left, above), std::max(left, above));
        }
        block.values[0] = static_cast<std::int16_t>(guess + step);
    }

    const AnsSpecification& tables_ = kAnsSpecification;
    std::span<const std::byte> bytes_;
    std::vector<Plane> planes_;
    int rows_ = 0;
    std::vector<std::uint32_t> states_;
    std::size_t words_ = 0;  // left
    std::size_t at_ = 0;
    std::size_t in_list_ = 0;
    std::size_t sign_ = 0;
    std::size_t bit_ = 0;
    bool good_ = true;
};

}  // namespace stoker::testing
