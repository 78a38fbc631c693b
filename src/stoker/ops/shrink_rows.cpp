// The ring, and the weights of a row in digits.
#include "stoker/ops/shrink_rows.h"

#include <algorithm>

#include "stoker/ops/resize.h"

namespace stoker {
namespace {

constexpr int kChannels = 3;
// At smaller scales an interval has too few inputs for steps of four, and nothing is won.
constexpr int kLeastScale = 3;
// At larger ones the sums of an interval do not fit into 16 bits.
constexpr int kMostScale = 30;
// Others would need gigabytes, and are refused.
constexpr int kMostWidth = 1 << 24;
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

bool shrinks_much(const ResizeGeometry& geometry, int channels) {
    return channels == kChannels && geometry.interpolation == Interpolation::bilinear &&
           geometry.full.height != geometry.source.height && geometry.source.width <= kMostWidth &&
           geometry.source.width / kLeastScale >= geometry.full.width &&
           geometry.source.width / kMostScale < geometry.full.width &&
           resize_stride(geometry.source.height, geometry.full.height, geometry.interpolation) <= kMostTaps;
}

ShrinkRows::ShrinkRows(const ShrinkKernels& kernels, const ResizeAxis& vertical, std::size_t out_bytes,
                       ShrinkScratch& scratch)
    : kernels_(kernels),
      vertical_(vertical),
      scratch_(scratch),
      out_bytes_(out_bytes),
      quad_bytes_((out_bytes * kShrinkRows + kShrinkSlack + kAlignment - 1) / kAlignment * kAlignment),
      used_digits_(largest_weight(vertical) < kThreeDigits - kThreeDigits / 64 ? 3 : 4),
      ring_((vertical.stride + kShrinkRows - 1) / kShrinkRows + 1) {
    scratch.quads.resize(quad_bytes_ * static_cast<std::size_t>(ring_));
    scratch.quad_rows.resize(static_cast<std::size_t>(ring_));
    scratch.digits.resize(static_cast<std::size_t>(ring_) * kShrinkDigits * kShrinkRows);
}

std::uint8_t* ShrinkRows::quad(int number) {
    return reinterpret_cast<std::uint8_t*>(scratch_.quads.data()) +
           quad_bytes_ * static_cast<std::size_t>(number % ring_);
}

int ShrinkRows::quads_for(int y) const {
    const ResizeTaps taps = vertical_.taps[static_cast<std::size_t>(y)];
    return (taps.first - vertical_.taps.front().first + taps.count - 1) / kShrinkRows + 1;
}

void ShrinkRows::add(const std::uint8_t* const (&rows)[kShrinkRows]) {
    kernels_.filter_rows(rows, scratch_.filter, quad(filtered_));
    ++filtered_;
}

void ShrinkRows::write(int y, std::uint8_t* out) {
    const ResizeTaps taps = vertical_.taps[static_cast<std::size_t>(y)];
    const std::int32_t* weights = vertical_.weights.data() + y * std::ptrdiff_t{vertical_.stride};
    const int first = taps.first - vertical_.taps.front().first;
    const int begin = first / kShrinkRows;
    const int count = quads_for(y) - begin;
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
