// Writes groups. rANS codes backwards: all symbols are collected, then coded from the last to the first, so that a
// reader gets them in order. A lane's first state holds 16 signs, because it would otherwise be wasted.
#include <algorithm>
#include <cstdlib>

#include "stoker/codecs/dct/ans_group.h"
#include "stoker/codecs/jpeg/jpeg_frame.h"

namespace stoker {
namespace {

class BitWriter {
  public:
    void put(std::uint32_t value, int bits) {
        for (int i = 0; i < bits; ++i, ++count_) {
            if (count_ % 8 == 0) {
                bytes.push_back({});
            }
            bytes.back() |= static_cast<std::byte>((value >> i & 1) << (count_ % 8));
        }
    }
    std::vector<std::byte> bytes;

  private:
    std::size_t count_ = 0;
};

struct Block {
    std::uint8_t count = 0;  // of AC coefficients that are not 0
    std::uint8_t scale = 0;
    std::uint8_t left = 0;
    std::uint64_t mask = 0;
    std::int16_t dc = 0;
    const std::int16_t* values = nullptr;  // (8, 8)
};

int magnitude(int value) {
    return value < 0 ? -value : value;
}

Block block_of(const std::int16_t* values) {
    Block block{.dc = values[0], .values = values};
    std::uint32_t sum = 0;
    for (std::size_t k = 1; k < kBlockSize; ++k) {
        if (const int value = values[kZigzag[k]]; value != 0) {
            block.mask |= std::uint64_t{1} << (k - 1);
            ++block.count;
            sum += static_cast<std::uint32_t>(magnitude(value));
        }
    }
    block.left = block.count;
    block.scale = static_cast<std::uint8_t>(ans_scale(sum, block.count));
    return block;
}

// The blocks of a plane and the numbers of a block's neighbours.
class Plane {
  public:
    Plane(const AnsPlane& from, bool is_chroma)
        : chroma(is_chroma ? 1 : 0), wide(static_cast<int>(from.wide)), rows(static_cast<int>(from.rows)) {
        for (std::size_t i = 0; i < from.wide * from.rows; ++i) {
            blocks.push_back(block_of(from.blocks + kBlockSize * i));
        }
    }
    const Block& at(int x, int y) const { return blocks[static_cast<std::size_t>(y * wide + x)]; }

    // Four neighbours' numbers, or `none`. Columns of odd index know both neighbours in their row.
    int sum(std::uint8_t Block::*number, int x, int y, int none) const {
        if (x % 2 == 1) {
            const int left = at(x - 1, y).*number;
            const int right = x + 1 < wide ? at(x + 1, y).*number : left;
            return y > 0 ? 2 * at(x, y - 1).*number + left + right : 2 * (left + right);
        }
        if (y == 0) {
            return none;
        }
        const int above = at(x, y - 1).*number;
        const int left = x > 0 ? at(x - 1, y - 1).*number : above;
        const int right = x + 1 < wide ? at(x + 1, y - 1).*number : above;
        return 2 * above + left + right;
    }
    std::int16_t dc_step(int x, int y) const {
        const int left = x > 0 ? at(x - 1, y).dc : 0;
        const int above = y > 0 ? at(x, y - 1).dc : 0;
        const int guess = x == 0 ? above : y == 0 ? left : ans_predict_dc(left, above, at(x - 1, y - 1).dc);
        return static_cast<std::int16_t>(at(x, y).dc - guess);
    }

    int chroma;
    int wide;
    int rows;
    std::vector<Block> blocks;
};

class Writer {
  public:
    explicit Writer(std::span<const AnsPlane> planes) {
        for (const AnsPlane& plane : planes) {
            planes_.emplace_back(plane, !planes_.empty());
            rows_ = std::max(rows_, planes_.back().rows);
        }
    }

    std::vector<std::byte> write() {
        for (int y = 0; y < rows_; ++y) {
            add_row(y, false);
        }
        for (int y = 0; y < rows_; ++y) {
            add_row(y, true);
        }
        add_dc();
        for (int nibble = 0; nibble < kAnsNibbles; ++nibble) {
            add_masks(nibble);
        }
        add_values();
        return finish();
    }

  private:
    struct Code {
        std::uint8_t table;
        std::uint8_t symbol;
        std::uint8_t lane;
    };

    void add(std::uint8_t table, int symbol) {
        codes_.push_back({table, static_cast<std::uint8_t>(symbol), static_cast<std::uint8_t>(in_list_++ % kAnsLanes)});
    }
    void end_list() { in_list_ = 0; }

    void add_number(std::uint8_t table, int value, int first) {
        const AnsMagnitude coded = ans_magnitude(static_cast<std::uint32_t>(magnitude(value)));
        add(table, coded.symbol + first);
        signs_.put(value < 0 ? 1 : 0, 1);
        bits_.put(coded.rest, coded.bits);
    }

    void add_row(int y, bool scales) {
        for (int odd = 0; odd < 2; ++odd) {
            for (const Plane& plane : planes_) {
                for (int x = odd; y < plane.rows && x < plane.wide; x += 2) {
                    const Block& block = plane.at(x, y);
                    if (scales) {
                        const int sum = plane.sum(&Block::scale, x, y, AnsModel::kNoScales);
                        add(model_.scale[odd][sum][block.count], block.scale);
                    } else {
                        const int sum = plane.sum(&Block::count, x, y, AnsModel::kNoCounts);
                        add(model_.count[plane.chroma][odd][sum], block.count);
                    }
                }
            }
            end_list();
        }
    }

    void add_dc() {
        for (const Plane& plane : planes_) {
            for (int y = 0; y < plane.rows; ++y) {
                for (int x = 0; x < plane.wide; ++x) {
                    const Block& block = plane.at(x, y);
                    const std::uint8_t table = model_.dc[plane.chroma][block.count][block.scale];
                    if (const int step = plane.dc_step(x, y); step != 0) {
                        add_number(table, step, 1);
                    } else {
                        add(table, 0);
                    }
                }
            }
        }
        end_list();
    }

    void add_masks(int nibble) {
        for (Plane& plane : planes_) {
            for (Block& block : plane.blocks) {
                const auto bits = static_cast<std::uint8_t>(block.mask >> (4 * nibble) & 15);
                const std::uint8_t table = model_.mask[plane.chroma][nibble][block.left];
                if (table < AnsModel::kAllSet) {
                    add(table, bits);
                }
                block.left = static_cast<std::uint8_t>(block.left - std::popcount(bits));
            }
        }
        end_list();
    }

    void add_values() {
        for (const Plane& plane : planes_) {
            for (const Block& block : plane.blocks) {
                const std::uint8_t* table = model_.value[plane.chroma][block.scale][model_.count_class[block.count]];
                for (std::size_t k = 1; k < kBlockSize; ++k) {
                    if (const int value = block.values[kZigzag[k]]; value != 0) {
                        add_number(table[k - 1], value, 0);
                    }
                }
            }
        }
        end_list();
    }

    std::vector<std::byte> finish() {
        std::vector<std::byte>& signs = signs_.bytes;
        signs.resize(std::max(signs.size(), 2 * kAnsLanes));
        std::uint32_t lane[kAnsLanes];
        for (std::size_t i = 0; i < kAnsLanes; ++i) {
            lane[i] = kAnsLow | std::to_integer<std::uint32_t>(signs[2 * i]) |
                      std::to_integer<std::uint32_t>(signs[2 * i + 1]) << 8;
        }
        std::vector<std::uint32_t> words;  // from the last
        for (std::size_t i = codes_.size(); i-- > 0;) {
            const Code& code = codes_[i];
            const std::uint32_t frequency = model_.frequency[code.table][code.symbol];
            std::uint32_t& x = lane[code.lane];
            if (x >= std::uint64_t{frequency} << (32 - kAnsBits)) {
                words.push_back(x & 0xffff);
                x >>= 16;
            }
            x = (x / frequency << kAnsBits) + model_.start[code.table][code.symbol] + x % frequency;
        }
        std::vector<std::byte> out;
        const auto put = [&out](std::uint32_t value, int bytes) {
            for (int b = 0; b < bytes; ++b) {
                out.push_back(static_cast<std::byte>(value >> (8 * b)));
            }
        };
        put(static_cast<std::uint32_t>(words.size()), 4);
        std::ranges::for_each(lane, [&](std::uint32_t x) { put(x, 4); });
        std::for_each(words.rbegin(), words.rend(), [&](std::uint32_t word) { put(word, 2); });
        out.insert(out.end(), signs.begin() + 2 * kAnsLanes, signs.end());
        out.insert(out.end(), bits_.bytes.begin(), bits_.bytes.end());
        return out;
    }

    const AnsModel& model_ = ans_model();
    std::vector<Plane> planes_;
    int rows_ = 0;
    std::size_t in_list_ = 0;
    std::vector<Code> codes_;
    BitWriter signs_;
    BitWriter bits_;
};

}  // namespace

std::vector<std::byte> write_ans_group(std::span<const AnsPlane> planes) {
    return Writer(planes).write();
}

}  // namespace stoker
