// A pickle's pixels and numbers are operands: whatever they are, the opcodes around them do the same. Where one of them
// is used a second time, as a shape for example, `opposite` is not read as it should be, and there is no pattern.
#include "stoker/formats/record_pattern.h"

#include <algorithm>
#include <cstring>
#include <functional>

namespace stoker {
namespace {

// Before the pixels, so that what kind of value it is has been told by bytes that are compared.
constexpr std::size_t kLeastBefore = 16;

std::optional<std::size_t> place_in(std::span<const std::byte> value, std::span<const std::byte> part) {
    const std::less_equal<> before;
    const bool inside =
        before(value.data(), part.data()) && before(part.data() + part.size(), value.data() + value.size());
    return inside ? std::optional(static_cast<std::size_t>(part.data() - value.data())) : std::nullopt;
}

}  // namespace

std::optional<RecordPattern> RecordPattern::of(std::span<const std::byte> value, const Sample& sample,
                                               const std::optional<ArrayView>& label) {
    const std::optional<std::size_t> pixels = place_in(value, sample.bytes);
    // An array of one row or column may hold an encoded image.
    if (!pixels || *pixels < kLeastBefore || sample.encoded || sample.height == 1 || sample.width == 1) {
        return std::nullopt;
    }
    RecordPattern pattern;
    pattern.pixels_ = {*pixels, sample.bytes.size()};
    if (label) {
        const std::optional<std::size_t> at = place_in(value, label->bytes);
        const bool apart = at && (*at + label->bytes.size() <= *pixels || *at >= *pixels + sample.bytes.size());
        if (!apart || *at < kLeastBefore) {
            return std::nullopt;
        }
        pattern.label_ = {*at, label->bytes.size()};
        pattern.label_type_ = label->type;
    }
    pattern.first_.resize(value.size());
    std::ranges::copy(value, pattern.first_.data());
    pattern.fixed_label_ = sample.label;
    pattern.height_ = sample.height;
    pattern.width_ = sample.width;
    pattern.channels_ = sample.channels;
    return pattern;
}

bool RecordPattern::read(std::span<const std::byte> value, Sample& sample) const {
    if (value.size() != first_.size()) {
        return false;
    }
    const auto same = [&](std::size_t begin, std::size_t end) {
        return std::memcmp(value.data() + begin, first_.data() + begin, end - begin) == 0;
    };
    const bool label_first = label_.size > 0 && label_.begin < pixels_.begin;
    const Part one = label_first ? label_ : pixels_;
    const Part two = label_first ? pixels_ : label_.size > 0 ? label_ : Part{value.size(), 0};
    if (!same(0, one.begin) || !same(one.begin + one.size, two.begin) || !same(two.begin + two.size, value.size())) {
        return false;
    }
    sample.bytes = part(value, pixels_);
    sample.encoded = false;
    sample.height = height_;
    sample.width = width_;
    sample.channels = channels_;
    sample.label = fixed_label_;
    if (label_.size > 0) {
        ArrayView label;
        label.type = label_type_;
        label.bytes = part(value, label_);
        sample.label = integer_at(label, 0);
    }
    return true;
}

std::span<const std::byte> RecordPattern::opposite(Buffer& storage) const {
    storage.resize(first_.size());
    std::ranges::copy(first_.bytes(), storage.data());
    for (const Part& turned : {pixels_, label_}) {
        for (std::byte& byte : storage.bytes().subspan(turned.begin, turned.size)) {
            byte = ~byte;
        }
    }
    return storage.bytes();
}

}  // namespace stoker
