// Reads groups. Each list's tables follow from the lists before, so the kernels see whole lists: no symbol waits for
// the one before it. The counts and scales are lists of half a row, because a block's neighbours choose its table.
#include "stoker/codecs/dct/ans_group.h"

#include <algorithm>
#include <cstring>

#include "stoker/base/error.h"
#include "stoker/codecs/byte_order.h"
#include "stoker/codecs/jpeg/jpeg_frame.h"

namespace stoker {
namespace {

constexpr std::size_t kFront = 4 + 4 * kAnsLanes;  // number of words, states

[[noreturn]] void refuse(const char* got) {
    throw DataError({}, {.where = "dct", .expected = "a valid group of blocks", .got = got});
}

std::size_t padded(std::size_t count) {
    return (count + kAnsPadding - 1) / kAnsPadding * kAnsPadding;
}

}  // namespace

void AnsGroupReader::read(std::span<const std::byte> group, std::span<const AnsPlane> planes) {
    open(group);
    layout(planes);
    read_blocks(false);
    read_blocks(true);
    read_dc();
    read_masks();
    read_values();
    read_signs(group);
    restore_dc();
    restore_values();
    if (bits_.beyond_end()) {
        refuse("a truncated group");
    }
}

void AnsGroupReader::open(std::span<const std::byte> group) {
    if (group.size() < kFront) {
        refuse("a truncated group");
    }
    const std::size_t words = load_le(group, 0, 4);
    if (words > (group.size() - kFront) / 2) {
        refuse("a truncated group");
    }
    for (std::size_t i = 0; i < kAnsLanes; ++i) {
        state_.lane[i] = load_le(group, 4 + 4 * i, 4);
        if (state_.lane[i] < kAnsLow) {
            refuse("a state below its range");
        }
    }
    state_.next = reinterpret_cast<const std::uint8_t*>(group.data()) + kFront;
    state_.end = state_.next + 2 * words;
}

void AnsGroupReader::layout(std::span<const AnsPlane> planes) {
    used_planes_ = planes.size();
    blocks_ = 0;
    std::size_t widest = 0;
    for (std::size_t p = 0; p < planes.size(); ++p) {
        Plane& plane = planes_[p];
        plane.wide = planes[p].wide;
        plane.rows = planes[p].rows;
        plane.at = blocks_;
        plane.even.resize(std::max(plane.even.size(), plane.evens() + 2 * kAnsPadding));
        plane.odd.resize(std::max(plane.odd.size(), plane.evens() + 2 * kAnsPadding));
        blocks_ += padded(plane.count());
        widest = std::max(widest, plane.wide);
    }
    if (room_ < blocks_ + kAnsPadding) {
        room_ = blocks_ + kAnsPadding;
        for (auto* bytes : {&tables_, &symbols_, &dc_symbols_, &left_, &classes_, &counts_, &scales_}) {
            bytes->resize(std::max(bytes->size(), room_));  // read_values may have made them larger
        }
        nibbles_.resize(kAnsNibbles * room_);
        masks_.resize(room_);
        dc_.resize(room_);
        starts_.resize(room_);
    }
    if (lengths_.size() < widest) {
        lengths_.resize(widest, 8);
        row_starts_.resize(widest);
    }
    for (std::size_t p = 0; p < used_planes_; ++p) {  // the blocks of the padding have no values
        const std::size_t end = planes_[p].at + planes_[p].count();
        const std::size_t next = planes_[p].at + padded(planes_[p].count());
        std::fill(counts_.begin() + static_cast<std::ptrdiff_t>(end),
                  counts_.begin() + static_cast<std::ptrdiff_t>(next), std::uint8_t{0});
        std::fill(scales_.begin() + static_cast<std::ptrdiff_t>(end),
                  scales_.begin() + static_cast<std::ptrdiff_t>(next), std::uint8_t{0});
    }
}

// Decodes the list whose tables are in tables_ to symbols_.
void AnsGroupReader::decode(std::size_t count) {
    if (!kernels_->decode(model_->slots.data(), state_, tables_.data(), count, symbols_.data())) {
        refuse("too few words");
    }
}

// Counts or scales, row by row.
void AnsGroupReader::read_blocks(bool scales) {
    std::vector<std::uint8_t>& out = scales ? scales_ : counts_;
    std::size_t rows = 0;
    for (std::size_t p = 0; p < used_planes_; ++p) {
        rows = std::max(rows, planes_[p].rows);
    }
    for (std::size_t y = 0; y < rows; ++y) {
        read_half(scales, false, y);
        read_half(scales, true, y);
        for (std::size_t p = 0; p < used_planes_; ++p) {
            const Plane& plane = planes_[p];
            if (y >= plane.rows) {
                continue;
            }
            std::uint8_t* const row = out.data() + plane.at + y * plane.wide;
            const std::uint8_t* const even = plane.even.data() + kAnsPadding;
            const std::uint8_t* const odd = plane.odd.data() + kAnsPadding;
            for (std::size_t i = 0; i < plane.odds(); ++i) {
                row[2 * i] = even[i];
                row[2 * i + 1] = odd[i];
            }
            if (plane.wide % 2 == 1) {
                row[plane.wide - 1] = even[plane.odds()];
            }
        }
    }
}

// The columns of even or odd index of a row. Those before and after the row are its first and last in the other half,
// so that no edge needs a branch.
void AnsGroupReader::read_half(bool scales, bool odd, std::size_t row) {
    std::size_t listed = 0;
    for (std::size_t p = 0; p < used_planes_; ++p) {
        const Plane& plane = planes_[p];
        if (row >= plane.rows) {
            continue;
        }
        const std::uint8_t* const above = (odd ? plane.odd : plane.even).data() + kAnsPadding;
        // The neighbours: in this row for odd columns, in that above for even ones.
        const std::uint8_t* const left = odd ? plane.even.data() + kAnsPadding : plane.odd.data() + kAnsPadding - 1;
        const std::uint8_t* const right = left + 1;
        const std::uint8_t* const counts = counts_.data() + plane.at + row * plane.wide + (odd ? 1 : 0);
        const auto& count_table = model_->count[p > 0 ? 1 : 0][odd ? 1 : 0];
        const auto& scale_table = model_->scale[odd ? 1 : 0];
        const std::size_t columns = odd ? plane.odds() : plane.evens();
        const unsigned none = scales ? AnsModel::kNoScales : AnsModel::kNoCounts;
        for (std::size_t i = 0; i < columns; ++i) {
            const unsigned beside = left[i] + unsigned{right[i]};
            const unsigned sum = row > 0 ? beside + 2U * above[i] : odd ? 2 * beside : none;
            tables_[listed++] = scales ? scale_table[sum][counts[2 * i]] : count_table[sum];
        }
    }
    decode(listed);
    const std::uint8_t* from = symbols_.data();
    for (std::size_t p = 0; p < used_planes_; ++p) {
        Plane& plane = planes_[p];
        if (row >= plane.rows) {
            continue;
        }
        std::uint8_t* const even = plane.even.data() + kAnsPadding;
        std::uint8_t* const odds = plane.odd.data() + kAnsPadding;
        const std::size_t columns = odd ? plane.odds() : plane.evens();
        std::memcpy(odd ? odds : even, from, columns);
        from += columns;
        if (!odd) {
            even[columns] = even[columns - 1];  // read if the row ends with an odd column
        } else {
            odds[-1] = even[0];
            odds[columns] = even[plane.evens() - 1];
        }
    }
}

void AnsGroupReader::read_dc() {
    std::size_t listed = 0;
    for (std::size_t p = 0; p < used_planes_; ++p) {
        const auto& table = model_->dc[p > 0 ? 1 : 0];
        const std::size_t end = planes_[p].at + planes_[p].count();
        for (std::size_t i = planes_[p].at; i < end; ++i) {
            tables_[listed++] = table[counts_[i]][scales_[i]];
        }
    }
    decode(listed);
    dc_symbols_.swap(symbols_);
}

void AnsGroupReader::read_masks() {
    std::memcpy(left_.data(), counts_.data(), blocks_);
    const std::size_t luma = used_planes_ > 1 ? planes_[1].at : blocks_;
    for (std::size_t g = 0; g < kAnsNibbles; ++g) {
        std::uint8_t* const nibbles = nibbles_.data() + g * blocks_;
        const auto all = static_cast<std::uint8_t>(g + 1 == kAnsNibbles ? 7 : 15);
        std::size_t listed = kernels_->pick_masks(model_->mask[0][g], left_.data(), luma, nibbles, tables_.data());
        listed += kernels_->pick_masks(model_->mask[1][g], left_.data() + luma, blocks_ - luma, nibbles + luma,
                                       tables_.data() + listed);
        decode(listed);
        kernels_->put_masks(symbols_.data(), all, blocks_, left_.data(), nibbles);
    }
    kernels_->join_masks(nibbles_.data(), blocks_, blocks_, masks_.data());
    if (std::any_of(left_.begin(), left_.begin() + static_cast<std::ptrdiff_t>(blocks_),
                    [](std::uint8_t left) { return left != 0; })) {
        refuse("masks that differ from their counts");
    }
}

void AnsGroupReader::read_values() {
    values_ = 0;
    for (std::size_t i = 0; i < blocks_; ++i) {
        starts_[i] = static_cast<std::uint32_t>(values_);
        values_ += counts_[i];
        classes_[i] = model_->count_class[counts_[i]];
    }
    const std::size_t room = values_ + 2 * kAnsPadding;
    if (tables_.size() < room) {
        tables_.resize(room);
    }
    if (symbols_.size() < room) {
        symbols_.resize(room);
    }
    if (signed_.size() < room) {
        signed_.resize(room);
    }
    const std::size_t luma = used_planes_ > 1 ? planes_[1].at : blocks_;
    const std::size_t listed =
        kernels_->value_tables(model_->value[0], scales_.data(), classes_.data(), masks_.data(), luma, tables_.data());
    kernels_->value_tables(model_->value[1], scales_.data() + luma, classes_.data() + luma, masks_.data() + luma,
                           blocks_ - luma, tables_.data() + listed);
    decode(values_);
    if (state_.next != state_.end) {
        refuse("too many words");
    }
}

// The first 512 signs are in the states, which they leave as kAnsLow + 16 signs.
void AnsGroupReader::read_signs(std::span<const std::byte> group) {
    std::size_t listed = 0;
    for (std::size_t p = 0; p < used_planes_; ++p) {
        listed += planes_[p].count();
    }
    const auto zeros = std::count(dc_symbols_.begin(), dc_symbols_.begin() + static_cast<std::ptrdiff_t>(listed), 0);
    const std::size_t signs = values_ + listed - static_cast<std::size_t>(zeros);
    const std::size_t bytes = std::max((signs + 7) / 8, 2 * kAnsLanes);
    const std::size_t rest = bytes - 2 * kAnsLanes;
    const auto* const end = reinterpret_cast<const std::uint8_t*>(group.data()) + group.size();
    if (static_cast<std::size_t>(end - state_.end) < rest) {
        refuse("a truncated group");
    }
    if (signs_.size() < bytes + kAnsPadding) {
        signs_.resize(bytes + kAnsPadding);
    }
    for (std::size_t i = 0; i < kAnsLanes; ++i) {
        if (state_.lane[i] >> 16 != 1) {
            refuse("states that do not end as they began");
        }
        signs_[2 * i] = static_cast<std::uint8_t>(state_.lane[i]);
        signs_[2 * i + 1] = static_cast<std::uint8_t>(state_.lane[i] >> 8);
    }
    if (rest > 0) {
        std::memcpy(signs_.data() + 2 * kAnsLanes, state_.end, rest);
    }
    sign_ = 0;
    bits_ = BitReader(state_.end + rest, end);
}

// The steps of a row's DCs. A step of 0 lacks a sign; it is symbol 0, which comes before those of the magnitudes. The
// unused last entry of kAnsMagnitudes makes it 0.
void AnsGroupReader::read_steps(const std::uint8_t* coded, std::size_t count) {
    steps_.resize(std::max(steps_.size(), count));
    for (std::size_t i = 0; i < count; ++i) {
        const int other = coded[i] != 0 ? 1 : 0;
        const int negative = signs_[sign_ / 8] >> (sign_ % 8) & other;
        const std::size_t symbol = (coded[i] + 31U) % 32;
        const auto magnitude = static_cast<int>(kAnsMagnitudes.base[symbol] + bits_.take(kAnsMagnitudes.bits[symbol]));
        steps_[i] = (magnitude ^ -negative) + negative;
        sign_ += static_cast<std::size_t>(other);
    }
}

void AnsGroupReader::restore_dc() {
    const std::uint8_t* coded = dc_symbols_.data();
    for (std::size_t p = 0; p < used_planes_; ++p) {
        const Plane& plane = planes_[p];
        for (std::size_t y = 0; y < plane.rows; ++y, coded += plane.wide) {
            read_steps(coded, plane.wide);
            std::int16_t* const row = dc_.data() + plane.at + y * plane.wide;
            const std::int16_t* const above = row - (y > 0 ? plane.wide : 0);
            row[0] = static_cast<std::int16_t>(steps_[0] + (y > 0 ? above[0] : 0));
            for (std::size_t x = 1; x < plane.wide; ++x) {
                const int left = row[x - 1];
                const int guess = y > 0 ? ans_predict_dc(left, above[x], above[x - 1]) : left;
                row[x] = static_cast<std::int16_t>(guess + steps_[x]);
            }
        }
    }
}

void AnsGroupReader::restore_values() {
    constexpr std::size_t kAtOnce = 4096;
    std::uint32_t others[kAtOnce + kAnsPadding];
    wide_.clear();
    for (std::size_t begin = 0; begin < values_; begin += kAtOnce) {
        const std::uint8_t* const symbols = symbols_.data() + begin;
        std::int8_t* const values = signed_.data() + begin;
        const std::size_t count = std::min(values_ - begin, kAtOnce);
        const std::size_t found = kernels_->sign_values(symbols, count, signs_.data(), sign_ + begin, values, others);
        for (std::size_t i = 0; i < found; ++i) {
            const std::uint32_t at = others[i];
            const std::uint8_t symbol = symbols[at];
            const auto magnitude =
                static_cast<int>(kAnsMagnitudes.base[symbol] + bits_.take(kAnsMagnitudes.bits[symbol]));
            const int negative = values[at] < 0 ? 1 : 0;
            const int value = (magnitude ^ -negative) + negative;
            values[at] = static_cast<std::int8_t>(magnitude < 128 ? value : -128);
            if (magnitude >= 128) {
                if (bits_.beyond_end()) {  // bounds wide_: each of these has at least 5 bits
                    refuse("a truncated group");
                }
                wide_.push_back(
                    {.place = static_cast<std::uint32_t>(begin) + at, .value = static_cast<std::int16_t>(value)});
            }
        }
    }
}

void AnsGroupReader::blocks(std::size_t plane, std::size_t row, std::size_t first, std::size_t count,
                            const SegmentKernels& kernels, std::int16_t* out) {
    const Plane& from = planes_[plane];
    const std::size_t at = from.at + row * from.wide + first;
    static_assert(std::endian::native == std::endian::little);  // a mask's first byte has its lowest bits
    const auto* const masks = reinterpret_cast<const std::uint8_t*>(masks_.data() + at);
    kernels.expand(lengths_.data(), masks, signed_.data() + starts_[at], dc_.data() + at, static_cast<int>(count),
                   row_starts_.data(), out);
    const std::uint32_t end = starts_[at + count - 1] + counts_[at + count - 1];
    auto wide = std::ranges::lower_bound(wide_, starts_[at], {}, &Wide::place);
    std::size_t block = at;
    for (; wide != wide_.end() && wide->place < end; ++wide) {
        while (starts_[block] + counts_[block] <= wide->place) {
            ++block;
        }
        std::uint64_t mask = masks_[block];
        for (std::uint32_t i = starts_[block]; i < wide->place; ++i) {
            mask &= mask - 1;
        }
        out[kBlockSize * (block - at) + kZigzag[static_cast<std::size_t>(std::countr_zero(mask)) + 1]] = wide->value;
    }
}

}  // namespace stoker
