// Writes segments, measures them, and reads them with the kernels of segment_kernels.h. The rare int16 coefficients are
// stored after the kernels are done.
#include "stoker/codecs/dct/dct_segment.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "stoker/codecs/jpeg/jpeg_frame.h"

namespace stoker {
namespace {

constexpr auto kEscape = static_cast<std::int8_t>(kWideMarker);

template <typename Number>
void append(std::vector<std::byte>& out, Number value) {
    for (std::size_t i = 0; i < sizeof(Number); ++i) {
        out.push_back(static_cast<std::byte>(static_cast<std::uint64_t>(value) >> (8 * i)));
    }
}

void append_nibbles(std::vector<std::uint8_t>& nibbles, std::vector<std::byte>& out) {
    nibbles.resize((nibbles.size() + 1) / 2 * 2);
    for (std::size_t i = 0; i < nibbles.size(); i += 2) {
        out.push_back(static_cast<std::byte>(nibbles[i] | nibbles[i + 1] << 4));
    }
}

std::int16_t load16(const std::uint8_t* from) {
    return static_cast<std::int16_t>(from[0] | from[1] << 8);
}

bool read_dc(const std::uint8_t* dc, const std::uint8_t* wide, const std::uint8_t* end, int count, std::int16_t* out) {
    int last = 0;
    for (int i = 0; i < count; ++i) {
        int step = static_cast<std::int8_t>(dc[i]);
        if (step == kEscape) {
            if (end - wide < 2) {
                return false;
            }
            step = load16(wide);
            wide += 2;
        }
        last += step;
        out[i] = static_cast<std::int16_t>(last);
    }
    return true;
}

// Counts the range's wide values, and finds where they begin at the end of the segment.
bool find_wide(std::span<const std::uint8_t> segment, const std::uint8_t* all_escapes, const SegmentKernels& kernels,
               SegmentRange& range) {
    const auto* const escapes = reinterpret_cast<const std::uint8_t*>(range.escapes);
    range.wide = kernels.count_markers(escapes, range.escaped);
    if (range.wide == 0) {
        return true;
    }
    const std::size_t before = kernels.count_markers(all_escapes, static_cast<std::size_t>(escapes - all_escapes));
    const std::uint8_t* const end = segment.data() + segment.size();
    range.wide_end = end - 2 * before;
    return 2 * (before + range.wide) <= static_cast<std::size_t>(end - (escapes + range.escaped));
}

// Replaces the markers of coefficients beyond int8 with their values from `wide`.
void store_wide(const SegmentRange& range, int first, int count, SegmentScratch& scratch, std::int16_t* out) {
    const std::int8_t* values = scratch.values();
    const std::int8_t* at = values;
    const std::uint8_t* masks = range.masks;
    int block = 0;
    for (std::size_t k = 0; k < range.wide; ++k, ++at) {
        // A vector loop of the C library, unlike std::find. There is one: find_wide counted them.
        at = static_cast<const std::int8_t*>(
            std::memchr(at, kWideMarker, static_cast<std::size_t>(values + range.values - at)));
        const auto place = static_cast<std::uint32_t>(at - values);
        for (; block + 1 < count && scratch.starts[static_cast<std::size_t>(block) + 1] <= place; ++block) {
            masks += scratch.lengths[static_cast<std::size_t>(first + block)];
        }
        std::uint64_t mask = load_mask(masks, scratch.lengths[static_cast<std::size_t>(first + block)]);
        for (std::uint32_t i = scratch.starts[static_cast<std::size_t>(block)]; i < place; ++i) {
            mask &= mask - 1;
        }
        const auto number = static_cast<std::size_t>(std::countr_zero(mask)) + 1;
        if (number < kBlockSize) {
            out[kBlockSize * block + kZigzag[number]] = load16(range.wide_end - 2 * (k + 1));
        }
    }
}

}  // namespace

bool find_range(std::span<const std::byte> bytes, int blocks, int first, int count, const SegmentKernels& kernels,
                SegmentScratch& scratch, SegmentRange& range) {
    const std::span segment(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
    const std::uint8_t* at = segment.data();
    const std::uint8_t* end = at + segment.size();
    const auto all = static_cast<std::size_t>(blocks);
    scratch.reserve(blocks);
    if (segment.size() < (all + 1) / 2 + all) {
        return false;
    }
    std::uint8_t* lengths = scratch.lengths.data();
    if (!kernels.unpack_lengths(at, all, lengths)) {
        return false;
    }
    const auto begin = static_cast<std::size_t>(first);
    const auto wanted = static_cast<std::size_t>(count);
    const std::size_t skipped = kernels.sum(lengths, begin);
    const std::size_t used = skipped + kernels.sum(lengths + begin, wanted);
    const std::size_t mask_bytes = used + kernels.sum(lengths + begin + wanted, all - begin - wanted);
    at += (all + 1) / 2;
    const std::uint8_t* wide = at + all;
    if (!read_dc(at, wide, end, first + count, scratch.dc.data())) {
        return false;
    }
    const std::size_t escaped_dc = kernels.count_markers(at, all);
    if (static_cast<std::size_t>(end - wide) < 2 * escaped_dc + mask_bytes) {
        return false;
    }
    const std::uint8_t* masks = wide + 2 * escaped_dc;
    range.masks = masks + skipped;
    range.mask_bytes = used - skipped;
    range.nibbles = masks + mask_bytes;
    range.first_value = kernels.count_bits(masks, skipped);
    range.values = kernels.count_bits(range.masks, range.mask_bytes);
    const std::size_t rest = kernels.count_bits(masks + used, mask_bytes - used);
    const std::size_t nibble_bytes = (range.first_value + range.values + rest + 1) / 2;
    if (static_cast<std::size_t>(end - range.nibbles) < nibble_bytes) {
        return false;
    }
    const std::uint8_t* const escapes = range.nibbles + nibble_bytes;
    const std::size_t first_escape = kernels.count_zeros(range.nibbles, range.first_value);
    const std::size_t needed = kernels.count_zeros(range.nibbles, range.first_value + range.values);
    if (static_cast<std::size_t>(end - escapes) < needed) {
        return false;
    }
    range.escapes = reinterpret_cast<const std::int8_t*>(escapes + first_escape);
    range.escaped = needed - first_escape;
    return find_wide(segment, escapes, kernels, range);
}

void SegmentScratch::reserve(int blocks) {
    const auto count = static_cast<std::size_t>(blocks);
    if (dc.size() < count) {
        lengths.resize(count + 128);
        dc.resize(count);
        starts.resize(count);
        memory.resize(64 + kBlockSize * count + 128);  // masks of damaged files may have all bits set
    }
}

void SegmentParts::Pieces::clear() {
    lengths.clear();
    dc.clear();
    dc_wide.clear();
    values.clear();
    wide.clear();
}

void SegmentParts::clear() {
    for (auto* part : {&front, &masks, &values, &escapes}) {
        part->clear();
    }
}

void write_segment(const std::int16_t* blocks, int count, SegmentParts& parts) {
    auto& [lengths, dc, dc_wide, values, wide] = parts.pieces;
    parts.pieces.clear();
    int last = 0;
    for (const std::int16_t* block = blocks; block != blocks + std::ptrdiff_t{kBlockSize} * count;
         block += kBlockSize) {
        const int step = block[0] - last;
        last = block[0];
        const bool fits = step > kEscape && step <= 127;
        append(dc, static_cast<std::int8_t>(fits ? step : kEscape));
        if (!fits) {
            append(dc_wide, static_cast<std::int16_t>(step));
        }
        std::uint64_t mask = 0;
        for (std::size_t k = 1; k < kBlockSize; ++k) {
            const int value = block[kZigzag[k]];
            if (value == 0) {
                continue;
            }
            mask |= std::uint64_t{1} << (k - 1);
            const bool small = value >= -8 && value <= 7;
            values.push_back(static_cast<std::uint8_t>(small ? value & 15 : 0));
            if (!small) {
                const bool byte = value > kEscape && value <= 127;
                append(parts.escapes, static_cast<std::int8_t>(byte ? value : kEscape));
                if (!byte) {  // the list is reversed below
                    wide.push_back(static_cast<std::byte>(value >> 8));
                    wide.push_back(static_cast<std::byte>(value));
                }
            }
        }
        const auto length = static_cast<std::size_t>(71 - std::countl_zero(mask)) / 8;
        lengths.push_back(static_cast<std::uint8_t>(length));
        for (std::size_t i = 0; i < length; ++i) {
            parts.masks.push_back(static_cast<std::byte>(mask >> (8 * i)));
        }
    }
    append_nibbles(lengths, parts.front);
    parts.front.insert(parts.front.end(), dc.begin(), dc.end());
    parts.front.insert(parts.front.end(), dc_wide.begin(), dc_wide.end());
    append_nibbles(values, parts.values);
    parts.escapes.insert(parts.escapes.end(), wide.rbegin(), wide.rend());
}

void join_segment(const SegmentParts& parts, std::vector<std::byte>& segment) {
    segment.clear();
    for (const auto* part : {&parts.front, &parts.masks, &parts.values, &parts.escapes}) {
        segment.insert(segment.end(), part->begin(), part->end());
    }
}

bool measure_segment(const std::span<const std::byte> (&parts)[4], int blocks, const SegmentKernels& kernels,
                     SegmentScratch& scratch, SegmentSizes& sizes) {
    const auto at = [](std::span<const std::byte> bytes) {
        return reinterpret_cast<const std::uint8_t*>(bytes.data());
    };
    const auto all = static_cast<std::size_t>(blocks);
    const auto& [front, masks, values, escapes] = parts;
    const std::size_t lengths = (all + 1) / 2;
    scratch.reserve(blocks);
    if (front.size() < lengths + all || !kernels.unpack_lengths(at(front), all, scratch.lengths.data())) {
        return false;
    }
    sizes.front = lengths + all + 2 * kernels.count_markers(at(front.subspan(lengths)), all);
    sizes.masks = kernels.sum(scratch.lengths.data(), all);
    if (front.size() < sizes.front || masks.size() < sizes.masks) {
        return false;
    }
    const std::size_t bits = kernels.count_bits(at(masks), sizes.masks);
    sizes.values = (bits + 1) / 2;
    if (values.size() < sizes.values) {
        return false;
    }
    const std::size_t escaped = kernels.count_zeros(at(values), bits);
    if (escapes.size() < escaped) {
        return false;
    }
    sizes.escapes = escaped + 2 * kernels.count_markers(at(escapes), escaped);
    return escapes.size() >= sizes.escapes;
}

bool read_segment(std::span<const std::byte> segment, int blocks, int first, int count, const SegmentKernels& kernels,
                  SegmentScratch& scratch, std::int16_t* out) {
    SegmentRange range;
    if (!find_range(segment, blocks, first, count, kernels, scratch, range)) {
        return false;
    }
    kernels.unpack(range.nibbles, range.first_value, range.values, range.escapes, scratch.values());
    const auto begin = static_cast<std::size_t>(first);
    kernels.expand(scratch.lengths.data() + begin, range.masks, scratch.values(), scratch.dc.data() + begin, count,
                   scratch.starts.data(), out);
    if (range.wide > 0) {
        store_wide(range, first, count, scratch, out);
    }
    return true;
}

}  // namespace stoker
