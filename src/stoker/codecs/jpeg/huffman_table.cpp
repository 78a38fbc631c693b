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

HuffmanTable::Entry HuffmanTable::entry_of(std::uint8_t symbol, unsigned length, unsigned value) const {
    const unsigned size = size_of(symbol);
    const unsigned run = dc_ ? 0 : symbol >> 4;
    if (size == 0) {  // a difference of 0, an end of block, or 16 zeros: stored as 15 zeros and a value of 0
        return {0, dc_ || run == 15 ? run : kEnd, length};
    }
    return {value_of(value, size), run, length + size};
}

// The entries of one code: one for each value, and for all bits behind it.
void HuffmanTable::add(std::uint32_t code, unsigned length, std::uint8_t symbol) {
    Pair* at = &pairs_[std::size_t{code} << (kBits - length)];
    const unsigned size = size_of(symbol);
    if (length + size > kBits) {
        std::fill_n(at, std::size_t{1} << (kBits - length), Pair{{}, Entry(symbol, 0, length)});
        return;
    }
    const std::size_t equal = std::size_t{1} << (kBits - length - size);
    for (unsigned value = 0; value < 1U << size; ++value, at += equal) {
        const Entry entry = entry_of(symbol, length, value);
        std::fill_n(at, equal, Pair{entry, entry});
    }
}

void HuffmanTable::add_second_codes() {
    for (std::size_t at = 0; at < pairs_.size(); ++at) {
        const Entry first = pairs_[at].first;
        if (first.empty() || first.run() == kEnd) {
            continue;
        }
        const Entry next = pairs_[at << first.length() & (pairs_.size() - 1)].first;
        if (!next.empty() && first.length() + next.length() <= kBits) {
            pairs_[at].last = {next.value(), first.run() + 1 + next.run(), first.length() + next.length()};
        }
    }
}

bool HuffmanTable::build(const JHUFF_TBL& table, bool dc, int largest) {
    if (built_ && dc == dc_ && std::memcmp(table.bits, table_.bits, sizeof table.bits) == 0 &&
        std::memcmp(table.huffval, table_.huffval, sizeof table.huffval) == 0) {
        return true;
    }
    built_ = false;
    dc_ = dc;
    table_ = table;
    pairs_.fill({});
    std::uint32_t code = 0;
    std::uint32_t place = 0;
    for (unsigned length = 1; length <= 16; ++length, code <<= 1) {
        offsets_[length] = place - code;
        for (int i = 0; i < table.bits[length]; ++i, ++code, ++place) {
            if (place >= 256 || code >> length != 0 || table.huffval[place] > largest) {
                return false;
            }
            if (length <= kBits) {
                add(code, length, table.huffval[place]);
            }
        }
        if (table.bits[length] != 0 && code >> length != 0) {  // no code has ones only (T.81, C.2)
            return false;
        }
        limits_[length] = code << (16 - length);
    }
    if (!dc) {
        add_second_codes();
    }
    built_ = true;
    return true;
}

HuffmanTable::Entry HuffmanTable::long_entry(std::uint64_t bits) const {
    const auto entry = [&](std::uint8_t symbol, unsigned length) {
        const unsigned size = size_of(symbol);
        return entry_of(symbol, length, size == 0 ? 0 : static_cast<unsigned>(bits << length >> (64 - size)));
    };
    if (const Entry code = pair(bits).last; !code.empty()) {
        return entry(static_cast<std::uint8_t>(code.value()), code.length());
    }
    const auto top = static_cast<std::uint32_t>(bits >> 48);
    for (unsigned length = kBits + 1; length <= 16; ++length) {
        if (top < limits_[length]) {
            const std::uint32_t place = (top >> (16 - length)) + offsets_[length];
            return entry(table_.huffval[place & 255], length);
        }
    }
    throw HuffmanError{};
}

}  // namespace stoker
