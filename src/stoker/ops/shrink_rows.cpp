// The ring, and the weights of a row in digits.
#include "stoker/ops/shrink_rows.h"

#include <algorithm>
#include <cstring>

#include "stoker/ops/resize.h"

namespace stoker {
namespace {

constexpr int kChannels = 3;
// At smaller scales an interval has too few inputs for steps of four, and nothing is won.
constexpr int kLeastScale = 3;
// With more taps, results could exceed 255: each weight is rounded.
constexpr int kMostTaps = 1 << 13;
// Weights below are of three digits.
constexpr std::int32_t kThreeDigits = 1 << (3 * kShrinkDigitBits - 1);

std::int32_t largest_weight(const ResizeAxis& axis) {
    std::int32_t largest = 0;
    for (std::size_t i = 0; i < axis.taps.size(); ++i) {
        const std::int32_t* weights = axis.weights.data() + i * static_cast<std::size_t>(axis.stride);
        largest = std::max(largest, *std::max_element(weights, weights + axis.taps[i].count));
    }
    return largest;
}

void split_weight(std::int32_t weight, std::int8_t (*digits)[kShrinkRows], int row) {
    constexpr std::int32_t kBase = 1 << kShrinkDigitBits;
    for (int d = 0; d < kShrinkDigits; ++d) {
        const std::int32_t digit = ((weight + kBase / 2) & (kBase - 1)) - kBase / 2;
        digits[d][row] = static_cast<std::int8_t>(digit);
        weight = (weight - digit) / kBase;
    }
}

}  // namespace

bool shrinks_much(const ResizeGeometry& geometry, ConstImageView from) {
    const bool ordered = from.stride >= static_cast<std::ptrdiff_t>(from.row_bytes());
    return from.channels == kChannels && ordered && geometry.interpolation == Interpolation::bilinear &&
           geometry.source.width / kLeastScale >= geometry.full.width &&
           resize_stride(geometry.source.height, geometry.full.height, geometry.interpolation) <= kMostTaps;
}

ShrinkRows::ShrinkRows(const ShrinkKernels& kernels, ConstImageView from, const ResizeAxis& vertical,
                       std::size_t out_bytes, ShrinkScratch& scratch)
    : kernels_(kernels),
      from_(from),
      vertical_(vertical),
      scratch_(scratch),
      out_bytes_(out_bytes),
      quad_bytes_((out_bytes * kShrinkRows + kShrinkSlack + kAlignment - 1) / kAlignment * kAlignment),
      used_digits_(largest_weight(vertical) < kThreeDigits - kThreeDigits / 64 ? 3 : 4),
      ring_((vertical.stride + kShrinkRows - 1) / kShrinkRows + 1) {
    scratch.quads.resize(quad_bytes_ * static_cast<std::size_t>(ring_));
    scratch.quad_rows.resize(static_cast<std::size_t>(ring_));
    scratch.digits.resize(static_cast<std::size_t>(ring_) * kShrinkDigits * kShrinkRows);
    scratch.last.resize(from.row_bytes() + kShrinkOverread);
    std::memcpy(scratch.last.data(), from.row(from.height - 1), from.row_bytes());
    std::memset(scratch.last.data() + from.row_bytes(), 0, kShrinkOverread);
}

std::uint8_t* ShrinkRows::quad(int number) {
    return reinterpret_cast<std::uint8_t*>(scratch_.quads.data()) +
           quad_bytes_ * static_cast<std::size_t>(number % ring_);
}

// Filters the next four rows; repeats the last row if there are fewer. The kernel reads beyond a row, which is the next
// row or the copy's end.
void ShrinkRows::filter_quad() {
    const std::uint8_t* rows[kShrinkRows];
    for (int r = 0; r < kShrinkRows; ++r) {
        const int y = filtered_ * kShrinkRows + r;
        rows[r] = y < from_.height - 1 ? from_.row(y) : reinterpret_cast<const std::uint8_t*>(scratch_.last.data());
    }
    kernels_.filter_rows(rows, scratch_.filter, quad(filtered_));
    ++filtered_;
}

void ShrinkRows::next(int y, std::uint8_t* out) {
    const ResizeTaps taps = vertical_.taps[static_cast<std::size_t>(y)];
    const std::int32_t* weights = vertical_.weights.data() + y * std::ptrdiff_t{vertical_.stride};
    const int first = taps.first - vertical_.taps.front().first;
    const int begin = first / kShrinkRows;
    const int count = (first + taps.count - 1) / kShrinkRows - begin + 1;
    while (filtered_ < begin + count) {
        filter_quad();
    }
    auto* digits = reinterpret_cast<std::int8_t(*)[kShrinkDigits][kShrinkRows]>(scratch_.digits.data());
    for (int q = 0; q < count; ++q) {
        for (int r = 0; r < kShrinkRows; ++r) {
            const int k = (begin + q) * kShrinkRows + r - first;
            split_weight(k >= 0 && k < taps.count ? weights[k] : 0, digits[q], r);
        }
        scratch_.quad_rows[static_cast<std::size_t>(q)] = quad(begin + q);
    }
    kernels_.sum_quads({scratch_.quad_rows.data(), digits, count, used_digits_}, out_bytes_, out);
}

}  // namespace stoker
