// Entries of codes up to kBits long, then pairs of these.
#include "stoker/codecs/jpeg/huffman_table.h"

#include <algorithm>
#include <cstring>

namespace stoker {
namespace {

// Value bits (T.81, F.2.2.1): values whose first bit is 0 are negative.
int value_of(unsigned bits, unsigned size) {
    return static_cast<int>(bits) - ((bits >> (size - 1) & 1) == 0 ? (1 << size) - 1 : 0);
}

}  // namespace

// `bits` begins with the code.
HuffmanTable::Entry HuffmanTable::entry_of(std::uint8_t symbol, unsigned length, std::uint64_t bits) const {
    const unsigned size = dc_ ? symbol : symbol & 15U;
    const unsigned run = dc_ ? 0 : symbol >> 4;
    if (size == 0) {  // a difference of 0, an end of block, or 16 zeros: stored as 15 zeros and a value of 0
        return {0, dc_ || run == 15 ? run : kEnd, length};
    }
    return {value_of(static_cast<unsigned>(bits << length >> (64 - size)), size), run, length + size};
}

bool HuffmanTable::build(const JHUFF_TBL& table, bool dc, int largest) {
    if (built_ && dc == dc_ && std::memcmp(table.bits, table_.bits, sizeof table.bits) == 0 &&
        std::memcmp(table.huffval, table_.huffval, sizeof table.huffval) == 0) {
        return true;
    }
    built_ = false;
    dc_ = dc;
    table_ = table;
    std::array<Entry, std::size_t{1} << kBits> entries{};
    std::uint32_t code = 0;
    std::uint32_t place = 0;
    for (unsigned length = 1; length <= 16; ++length, code <<= 1) {
        offsets_[length] = place - code;
        for (int i = 0; i < table.bits[length]; ++i, ++code, ++place) {
            if (place >= 256 || code >> length != 0 || table.huffval[place] > largest) {
                return false;
            }
            const std::uint8_t symbol = table.huffval[place];
            const unsigned size = dc ? symbol : symbol & 15U;
            if (length + size > kBits) {
                continue;
            }
            // All entries with the same value bits are equal.
            const unsigned spare = kBits - length - size;
            for (unsigned value = 0; value < 1U << size; ++value) {
                const std::size_t at = (std::size_t{code} << size | value) << spare;
                std::fill_n(entries.begin() + static_cast<std::ptrdiff_t>(at), std::size_t{1} << spare,
                            entry_of(symbol, length, static_cast<std::uint64_t>(at) << (64 - kBits)));
            }
        }
        limits_[length] = code << (16 - length);
    }
    for (std::size_t at = 0; at < entries.size(); ++at) {
        const Entry first = entries[at];
        Entry last = first;
        if (!dc && !first.empty() && first.run() != kEnd) {
            const Entry next = entries[at << first.length() & (entries.size() - 1)];
            if (!next.empty() && first.length() + next.length() <= kBits) {
                last = {next.value(), first.run() + 1 + next.run(), first.length() + next.length()};
            }
        }
        pairs_[at] = {first, last};
    }
    built_ = true;
    return true;
}

HuffmanTable::Entry HuffmanTable::long_entry(std::uint64_t bits) const {
    const auto top = static_cast<std::uint32_t>(bits >> 48);
    for (unsigned length = 1; length <= 16; ++length) {
        if (top < limits_[length]) {
            const std::uint32_t place = (top >> (16 - length)) + offsets_[length];
            return entry_of(table_.huffval[place & 255], length, bits);
        }
    }
    throw HuffmanError{};
}

}  // namespace stoker
