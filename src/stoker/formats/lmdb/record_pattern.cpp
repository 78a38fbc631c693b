// Pixels and label must be operands of opcodes that state their length. Then the other opcodes do the same for any
// bytes. If the pickle uses one of them a second time, for example as a shape, the inverted value is read differently.
#include "stoker/formats/lmdb/record_pattern.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <string_view>

namespace stoker {
namespace {

// The kind of value must follow from bytes that are compared: these two say that it is a pickle of protocol 2 or later.
constexpr std::size_t kMark = 2;
constexpr std::byte kProtocol{0x80};

std::optional<std::size_t> place_in(std::span<const std::byte> value, std::span<const std::byte> part) {
    const std::less_equal<> before;
    const bool inside =
        before(value.data(), part.data()) && before(part.data() + part.size(), value.data() + value.size());
    return inside ? std::optional(static_cast<std::size_t>(part.data() - value.data())) : std::nullopt;
}

// True for the operand of BINBYTES, SHORT_BINBYTES, BINBYTES8, BYTEARRAY8, BINSTRING or SHORT_BINSTRING. An opcode
// whose operand ends at a line's end does not qualify: other bytes would end it elsewhere.
bool is_counted(std::span<const std::byte> value, std::size_t begin, std::size_t size) {
    const auto length_before = [&](std::size_t digits, std::string_view opcodes) {
        if (begin < digits + 1 || opcodes.find(std::to_integer<char>(value[begin - digits - 1])) == opcodes.npos) {
            return false;
        }
        std::uint64_t count = 0;
        std::memcpy(&count, value.data() + begin - digits, digits);
        return count == size;
    };
    return length_before(1, "CU") || length_before(4, "BT") || length_before(8, "\x8e\x96");
}

// True for the operand of BININT1, BININT2 or BININT.
bool is_integer(std::span<const std::byte> value, std::size_t begin, std::size_t size) {
    const char opcode = size == 1 ? 'K' : size == 2 ? 'M' : size == 4 ? 'J' : '\0';
    return begin >= 1 && opcode != '\0' && std::to_integer<char>(value[begin - 1]) == opcode;
}

}  // namespace

std::optional<RecordPattern> RecordPattern::of(std::span<const std::byte> value, const Sample& sample,
                                               const std::optional<ArrayView>& label) {
    const std::optional<std::size_t> pixels = place_in(value, sample.bytes);
    // An array of one row or column may hold an encoded image.
    if (!pixels || sample.encoded || sample.height == 1 || sample.width == 1 || value[0] != kProtocol ||
        *pixels < kMark || !is_counted(value, *pixels, sample.bytes.size())) {
        return std::nullopt;
    }
    RecordPattern pattern;
    pattern.pixels_ = {*pixels, sample.bytes.size()};
    if (label) {
        const std::optional<std::size_t> at = place_in(value, label->bytes);
        const std::size_t size = label->bytes.size();
        const bool apart = at && (*at + size <= *pixels || *at >= *pixels + sample.bytes.size());
        if (!apart || *at < kMark || !(is_integer(value, *at, size) || is_counted(value, *at, size))) {
            return std::nullopt;
        }
        pattern.label_ = {*at, size};
        pattern.label_type_ = label->type;
    }
    pattern.size_ = value.size();
    pattern.others_.assign(value.begin(), value.begin() + static_cast<std::ptrdiff_t>(*pixels));
    const std::span<const std::byte> behind = value.subspan(*pixels + sample.bytes.size());
    pattern.others_.insert(pattern.others_.end(), behind.begin(), behind.end());
    pattern.fixed_label_ = sample.label;
    pattern.height_ = sample.height;
    pattern.width_ = sample.width;
    pattern.channels_ = sample.channels;
    return pattern;
}

// For a range without pixels.
bool RecordPattern::same(std::span<const std::byte> value, std::size_t begin, std::size_t end) const {
    const std::size_t at = begin > pixels_.begin ? begin - pixels_.size : begin;
    return std::memcmp(value.data() + begin, others_.data() + at, end - begin) == 0;
}

bool RecordPattern::read(std::span<const std::byte> value, Sample& sample) const {
    if (value.size() != size_) {
        return false;
    }
    const bool label_first = label_.size > 0 && label_.begin < pixels_.begin;
    const Part one = label_first ? label_ : pixels_;
    const Part two = label_first ? pixels_ : label_.size > 0 ? label_ : Part{size_, 0};
    if (!same(value, 0, one.begin) || !same(value, one.begin + one.size, two.begin) ||
        !same(value, two.begin + two.size, size_)) {
        return false;
    }
    sample.set_raw(part(value, pixels_), height_, width_, channels_);
    sample.label = fixed_label_;
    if (label_.size > 0) {
        ArrayView label;
        label.type = label_type_;
        label.bytes = part(value, label_);
        sample.label = integer_at(label, 0);
    }
    return true;
}

std::span<const std::byte> RecordPattern::inverted(std::span<const std::byte> value, Buffer& storage) const {
    storage.resize(value.size());
    std::ranges::copy(value, storage.data());
    for (const Part& turned : {pixels_, label_}) {
        for (std::byte& byte : storage.bytes().subspan(turned.begin, turned.size)) {
            byte = ~byte;
        }
    }
    return storage.bytes();
}

}  // namespace stoker
