// Writes segments, measures them, and reads them with the kernels of segment_kernels.h. The rare int16 coefficients are
// stored after the kernels are done.
#include "stoker/codecs/dct/dct_segment.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "stoker/codecs/jpeg/jpeg_frame.h"

namespace stoker {
namespace {

constexpr std::int8_t kEscape = -128;

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

// The parts of a segment that blocks [first, first + count) need.
struct ParsedSegment {
    const std::uint8_t* masks = nullptr;    // of the first block
    const std::uint8_t* nibbles = nullptr;  // of the whole segment
    std::size_t first_value = 0;
    std::size_t values = 0;
    const std::int8_t* escapes = nullptr;  // of the whole segment
    std::size_t first_escape = 0;
};

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

bool parse_segment(std::span<const std::uint8_t> segment, int blocks, int first, int count,
                   const SegmentKernels& kernels, SegmentScratch& scratch, ParsedSegment& parsed) {
    const std::uint8_t* at = segment.data();
    const std::uint8_t* end = at + segment.size();
    const auto all = static_cast<std::size_t>(blocks);
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
    const auto escaped = static_cast<std::size_t>(std::count(at, at + all, static_cast<std::uint8_t>(kEscape)));
    if (static_cast<std::size_t>(end - wide) < 2 * escaped + mask_bytes) {
        return false;
    }
    const std::uint8_t* masks = wide + 2 * escaped;
    parsed.masks = masks + skipped;
    parsed.nibbles = masks + mask_bytes;
    parsed.first_value = kernels.count_bits(masks, skipped);
    parsed.values = kernels.count_bits(parsed.masks, used - skipped);
    const std::size_t rest = kernels.count_bits(masks + used, mask_bytes - used);
    const std::size_t nibble_bytes = (parsed.first_value + parsed.values + rest + 1) / 2;
    if (static_cast<std::size_t>(end - parsed.nibbles) < nibble_bytes) {
        return false;
    }
    parsed.escapes = reinterpret_cast<const std::int8_t*>(parsed.nibbles + nibble_bytes);
    parsed.first_escape = kernels.count_zeros(parsed.nibbles, parsed.first_value);
    const std::size_t needed = kernels.count_zeros(parsed.nibbles, parsed.first_value + parsed.values);
    return static_cast<std::size_t>(end - (parsed.nibbles + nibble_bytes)) >= needed;
}

// Replaces the markers of coefficients beyond int8 with their values from `wide`.
bool store_wide(std::span<const std::uint8_t> segment, const ParsedSegment& parsed, std::size_t escapes, int first,
                int count, SegmentScratch& scratch, std::int16_t* out) {
    const std::int8_t* values = scratch.values();
    auto number = static_cast<std::size_t>(std::count(parsed.escapes, parsed.escapes + parsed.first_escape, kEscape));
    const auto room =
        static_cast<std::size_t>(segment.data() + segment.size() -
                                 reinterpret_cast<const std::uint8_t*>(parsed.escapes + parsed.first_escape + escapes));
    const std::int8_t* end = values + parsed.values;
    const std::uint8_t* masks = parsed.masks;
    int block = 0;
    for (const std::int8_t* at = values;; ++at) {
        at = static_cast<const std::int8_t*>(
            std::memchr(at, static_cast<std::uint8_t>(kEscape), static_cast<std::size_t>(end - at)));
        if (at == nullptr) {
            return true;
        }
        if (2 * ++number > room) {
            return false;
        }
        const auto place = static_cast<std::uint32_t>(at - values);
        for (; block + 1 < count && scratch.starts[static_cast<std::size_t>(block) + 1] <= place; ++block) {
            masks += scratch.lengths[static_cast<std::size_t>(first + block)];
        }
        std::uint64_t mask = load_mask(masks, scratch.lengths[static_cast<std::size_t>(first + block)]);
        for (std::uint32_t i = scratch.starts[static_cast<std::size_t>(block)]; i < place; ++i) {
            mask &= mask - 1;
        }
        const auto k = static_cast<std::size_t>(std::countr_zero(mask)) + 1;
        if (k < kBlockSize) {
            out[kBlockSize * block + kZigzag[k]] = load16(segment.data() + segment.size() - 2 * number);
        }
    }
}

}  // namespace

void SegmentScratch::reserve(int blocks) {
    const auto count = static_cast<std::size_t>(blocks);
    if (dc.size() < count) {
        lengths.resize(count + 128);
        dc.resize(count);
        starts.resize(count);
        memory.resize(64 + kBlockSize * count + 128);  // masks of damaged files may have all bits set
    }
}

void write_segment(const std::int16_t* blocks, int count, SegmentParts& parts) {
    std::vector<std::byte> dc_wide;
    std::vector<std::byte> wide;
    std::vector<std::uint8_t> lengths;  // one nibble per element, like `values`
    std::vector<std::uint8_t> values;
    std::vector<std::byte> dc;
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

bool measure_segment(const std::span<const std::byte> (&parts)[4], int blocks, const SegmentKernels& kernels,
                     SegmentScratch& scratch, SegmentSizes& sizes) {
    const auto count_escapes = [](std::span<const std::byte> bytes) {
        return static_cast<std::size_t>(std::count(bytes.begin(), bytes.end(), std::byte{0x80}));
    };
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
    sizes.front = lengths + all + 2 * count_escapes(front.subspan(lengths, all));
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
    sizes.escapes = escaped + 2 * count_escapes(escapes.first(escaped));
    return escapes.size() >= sizes.escapes;
}

bool read_segment(std::span<const std::byte> bytes, int blocks, int first, int count, const SegmentKernels& kernels,
                  SegmentScratch& scratch, std::int16_t* out) {
    const std::span segment(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
    scratch.reserve(blocks);
    ParsedSegment parsed;
    if (!parse_segment(segment, blocks, first, count, kernels, scratch, parsed)) {
        return false;
    }
    const std::int8_t* escapes = parsed.escapes + parsed.first_escape;
    const std::size_t escaped =
        kernels.unpack(parsed.nibbles, parsed.first_value, parsed.values, escapes, scratch.values());
    const auto begin = static_cast<std::size_t>(first);
    kernels.expand(scratch.lengths.data() + begin, parsed.masks, scratch.values(), scratch.dc.data() + begin, count,
                   scratch.starts.data(), out);
    if (std::memchr(escapes, static_cast<std::uint8_t>(kEscape), escaped) == nullptr) {
        return true;
    }
    return store_wide(segment, parsed, escaped, first, count, scratch, out);
}

}  // namespace stoker
