// The kernels in plain C++ for every processor. They are the reference of the vector sets and give the same bits; the
// loops over k define the order of every sum.
#include "stoker/fused/fused_kernels.h"

#include <bit>
#include <cmath>
#include <vector>

#include "stoker/base/cpu_features.h"
#include "stoker/fused/row_kernels.h"

namespace stoker {
namespace {

struct Plain {
    using Reg = float;
    static constexpr int kLanes = 1;

    static Reg load(const float* from) { return *from; }
    static void store(float* to, Reg value) { *to = value; }
    static Reg load_part(const float* from, int /*part*/) { return *from; }
    static void store_part(float* to, Reg value, int /*part*/) { *to = value; }
    static Reg set(float value) { return value; }

    static Reg add(Reg a, Reg b) { return a + b; }
    static Reg sub(Reg a, Reg b) { return a - b; }
    static Reg mul(Reg a, Reg b) { return a * b; }
    static Reg div(Reg a, Reg b) { return a / b; }
    static Reg sqrt(Reg a) { return std::sqrt(a); }
    static Reg fma(Reg a, Reg b, Reg c) { return std::fma(a, b, c); }
    // The second operand if one is NaN, as on x86.
    static Reg max(Reg a, Reg b) { return a > b ? a : b; }
    static Reg min(Reg a, Reg b) { return a < b ? a : b; }
    static Reg abs(Reg a) { return std::fabs(a); }
    static Reg with_sign(Reg magnitude, Reg sign) { return std::copysign(magnitude, sign); }
    static Reg where_less(Reg a, Reg b, Reg yes, Reg no) { return a < b ? yes : no; }
    static Reg add_exponent(Reg value, Reg shifted) {
        return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) +
                                    (std::bit_cast<std::uint32_t>(shifted) << 23));
    }
};

void product(const Product& p, const float* start, float* out) {
    for (int i = 0; i < p.rows; ++i) {
        float* row = out + std::ptrdiff_t{i} * kPanel;
        for (int j = 0; j < p.columns; ++j) {
            float sum = !p.begins ? row[j] : start != nullptr ? start[i] : 0.0f;
            for (int k = 0; k < p.depth; ++k) {
                sum = std::fma(p.a[i * p.a_row + k * p.a_step], p.b[k * p.b_stride + j], sum);
            }
            row[j] = sum;
        }
    }
}

void product_update(const Product& p, const UpdateRule& rule, const ParameterRows& updated) {
    for (int i = 0; i < p.rows; ++i) {
        for (int j = 0; j < p.columns; ++j) {
            float grad = 0;
            for (int k = 0; k < p.depth; ++k) {
                const float a = p.a[k / kPanel * p.a_panel + i * p.a_row + k % kPanel * p.a_step];
                grad = std::fma(a, p.b[k * p.b_stride + j], grad);
            }
            RowKernels<Plain>::update(rule, 1, &grad, updated.offset_by(i * updated.stride + j));
        }
    }
}

void transpose(const float* from, std::ptrdiff_t stride, int rows, int columns, float* to) {
    for (int j = 0; j < columns; ++j) {
        for (int i = 0; i < round_up_to_group(rows); ++i) {
            to[std::ptrdiff_t{j} * kPanel + i] = i < rows ? from[i * stride + j] : 0.0f;
        }
    }
}

std::vector<FusedKernels> find_kernels() {
    std::vector<FusedKernels> sets = {kPlainFusedKernels};
#if defined(__x86_64__)
    if (cpu_features().avx2) {
        sets.push_back(kAvx2FusedKernels);
    }
    if (cpu_features().avx512) {
        sets.push_back(kAvx512FusedKernels);
    }
#endif
    return sets;
}

}  // namespace

const FusedKernels kPlainFusedKernels = {.name = "plain",
                                         .product = product,
                                         .product_update = product_update,
                                         .update = RowKernels<Plain>::update,
                                         .transpose = transpose,
                                         .activate = RowKernels<Plain>::activate,
                                         .multiply_by_derivative = RowKernels<Plain>::multiply_by_derivative,
                                         .sample_sums = RowKernels<Plain>::sample_sums,
                                         .softmax = RowKernels<Plain>::softmax};

std::span<const FusedKernels> fused_kernels() {
    static const std::vector<FusedKernels> sets = find_kernels();
    return sets;
}

const FusedKernels& best_fused_kernels() {
    return fused_kernels().back();
}

}  // namespace stoker
