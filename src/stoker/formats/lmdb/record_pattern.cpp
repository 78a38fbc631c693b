// Pixels, label and text must be operands of opcodes that state their length. Then the other opcodes do the same for
// any bytes. If the pickle uses one of them a second time, for example as a shape, the inverted value is read
// differently.
#include "stoker/formats/lmdb/record_pattern.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <string_view>

#include "stoker/base/file.h"

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

// True for the operand of an opcode that is followed by the operand's length. An opcode whose operand ends at a line's
// end does not qualify: other bytes would end it elsewhere. The strings name the opcodes with 1, 4 and 8 length bytes.
bool is_counted(std::span<const std::byte> value, std::size_t begin, std::size_t size,
                const std::array<std::string_view, 3>& opcodes) {
    for (std::size_t i = 0; i < opcodes.size(); ++i) {
        const std::size_t digits = std::array{1, 4, 8}[i];
        if (begin > digits && opcodes[i].find(std::to_integer<char>(value[begin - digits - 1])) != opcodes[i].npos) {
            std::uint64_t count = 0;
            std::memcpy(&count, value.data() + begin - digits, digits);
            if (count == size) {
                return true;
            }
        }
    }
    return false;
}

// SHORT_BINBYTES and SHORT_BINSTRING; BINBYTES and BINSTRING; BINBYTES8 and BYTEARRAY8.
constexpr std::array<std::string_view, 3> kBytes = {"CU", "BT", "\x8e\x96"};
// SHORT_BINUNICODE, BINUNICODE, BINUNICODE8.
constexpr std::array<std::string_view, 3> kText = {"\x8c", "X", "\x8d"};

// True for the operand of BININT1, BININT2, BININT or LONG1.
bool is_integer(std::span<const std::byte> value, std::size_t begin, std::size_t size) {
    if (is_counted(value, begin, size, {"\x8a", "", ""})) {
        return true;
    }
    const char opcode = size == 1 ? 'K' : size == 2 ? 'M' : size == 4 ? 'J' : '\0';
    return begin >= 1 && opcode != '\0' && std::to_integer<char>(value[begin - 1]) == opcode;
}

}  // namespace

std::optional<RecordPattern> RecordPattern::of(std::span<const std::byte> value, const Sample& sample,
                                               const std::optional<ArrayView>& label, std::string_view text) {
    const std::optional<std::size_t> pixels = place_in(value, sample.bytes);
    // An array of one row or column may hold an encoded image.
    if (!pixels || sample.encoded || sample.height == 1 || sample.width == 1 || value[0] != kProtocol ||
        *pixels < kMark || !is_counted(value, *pixels, sample.bytes.size(), kBytes)) {
        return std::nullopt;
    }
    RecordPattern pattern;
    pattern.size_ = value.size();
    pattern.pixels_ = {*pixels, sample.bytes.size()};
    pattern.free_.fill({value.size(), 0});
    pattern.free_[0] = pattern.pixels_;
    if (label) {
        const std::optional<std::size_t> at = place_in(value, label->bytes);
        const std::size_t size = label->bytes.size();
        if (!at || *at < kMark || !(is_integer(value, *at, size) || is_counted(value, *at, size, kBytes))) {
            return std::nullopt;
        }
        pattern.free_[1] = pattern.label_ = {*at, size};
        pattern.label_type_ = label->type;
    }
    const std::optional<std::size_t> text_at = text.empty() ? std::nullopt : place_in(value, as_bytes(text));
    if (text_at && *text_at >= kMark && is_counted(value, *text_at, text.size(), kText)) {
        pattern.free_[2] = {*text_at, text.size()};
    }
    std::ranges::sort(pattern.free_, {}, &Part::begin);
    std::size_t end = 0;
    for (const Part& part : pattern.free_) {
        if (part.begin < end) {
            return std::nullopt;  // they overlap
        }
        pattern.others_.insert(pattern.others_.end(), value.begin() + static_cast<std::ptrdiff_t>(end),
                               value.begin() + static_cast<std::ptrdiff_t>(part.begin));
        end = part.begin + part.size;
    }
    pattern.others_.insert(pattern.others_.end(), value.begin() + static_cast<std::ptrdiff_t>(end), value.end());
    pattern.fixed_label_ = sample.label;
    pattern.height_ = sample.height;
    pattern.width_ = sample.width;
    pattern.channels_ = sample.channels;
    return pattern;
}

bool RecordPattern::read(std::span<const std::byte> value, Sample& sample) const {
    if (value.size() != size_) {
        return false;
    }
    const std::byte* other = others_.data();
    std::size_t begin = 0;
    const auto same_until = [&](std::size_t end) {
        const bool same = std::memcmp(value.data() + begin, other, end - begin) == 0;
        other += end - begin;
        return same;
    };
    for (const Part& part : free_) {
        if (!same_until(part.begin)) {
            return false;
        }
        begin = part.begin + part.size;
    }
    if (!same_until(size_)) {
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
    for (const Part& turned : free_) {
        for (std::byte& byte : storage.bytes().subspan(turned.begin, turned.size)) {
            byte = ~byte;
        }
    }
    return storage.bytes();
}

}  // namespace stoker
