// The kernels in plain C++, for every processor, and the choice of a set.
#include "stoker/ops/kernels.h"

#include <algorithm>

#include "stoker/base/float16.h"
#include "stoker/ops/normalize_loops.h"

namespace stoker {
namespace {

constexpr std::int32_t kHalf = 1 << (kResizeBits - 1);
constexpr std::size_t kBlock = 4 * kLanes;  // outputs per loop: kLanes pixels of up to four channels

std::uint8_t rounded(std::int32_t sum) {
    return static_cast<std::uint8_t>(std::clamp(sum >> kResizeBits, 0, 255));
}

// Computes `length` adjacent outputs that share their weights. `tap(k)` points to the inputs of the k-th tap.
template <typename Tap>
void sum(Tap tap, const std::int32_t* weights, int count, std::uint8_t* out, std::size_t length) {
    std::int32_t sums[kBlock];
    std::fill_n(sums, kBlock, kHalf);
    for (int k = 0; k < count; ++k) {
        const std::uint8_t* in = tap(k);
        const std::int32_t weight = weights[k];
        for (std::size_t i = 0; i < length; ++i) {
            sums[i] += weight * in[i];
        }
    }
    for (std::size_t i = 0; i < length; ++i) {
        out[i] = rounded(sums[i]);
    }
}

void resize_columns(const std::uint8_t* columns, const ResizeAxis& axis, int channels, std::uint8_t* out) {
    const std::ptrdiff_t step = std::ptrdiff_t{channels} * kLanes;
    const std::int32_t* weights = axis.weights.data();
    for (const ResizeTaps& taps : axis.taps) {
        const std::uint8_t* in = columns + (taps.first - axis.taps.front().first) * step;
        sum([&](int k) { return in + k * step; }, weights, taps.count, out, static_cast<std::size_t>(step));
        weights += axis.stride;
        out += step;
    }
}

void resize_rows(const std::uint8_t* const* rows, const std::int32_t* weights, int count, std::uint8_t* out,
                 std::size_t bytes) {
    for (std::size_t begin = 0; begin < bytes; begin += kBlock) {
        sum([&](int k) { return rows[k] + begin; }, weights, count, out + begin, std::min(kBlock, bytes - begin));
    }
}

void normalize_pixels(const std::uint8_t* pixels, std::size_t count, int channels, const NormalizeFactors& factors,
                      Layout layout, float* out, std::size_t plane) {
    normalize_loops::normalize(pixels, count, channels, factors, layout, out, plane);
}

void to_16bit(const float* values, std::size_t count, DType dtype, std::uint16_t* out) {
    for (std::size_t i = 0; i < count; ++i) {
        out[i] = dtype == DType::bfloat16 ? to_bfloat16(values[i]) : to_float16(values[i]);
    }
}

}  // namespace

const OpKernels kPlainKernels{"plain",  resize_columns, resize_rows, normalize_pixels,
                              to_16bit, nullptr,        nullptr,     nullptr};

std::span<const OpKernels> op_kernels() {
    static const std::vector<OpKernels> sets = [] {
        std::vector<OpKernels> all{kPlainKernels};
#if defined(__x86_64__)
        const std::vector<OpKernels> wide = x86_kernels();
        all.insert(all.end(), wide.begin(), wide.end());
#endif
        return all;
    }();
    return sets;
}

const OpKernels& best_kernels() {
    static const OpKernels& best = op_kernels().back();
    return best;
}

}  // namespace stoker
