// Elementwise loops: activations, their derivatives, the optimiser's update, softmax. Templates over a register type V;
// the plain set's register is a float.
#pragma once

#include "stoker/fused/activations.h"
#include "stoker/fused/fused_kernels.h"
#include "stoker/fused/vector_math.h"

namespace stoker {

template <typename V>
struct RowKernels {
    using Reg = typename V::Reg;

    static void activate(Activation activation, int rows, int columns, float* values, float* derivatives) {
        for (int i = 0; i < rows; ++i) {
            for (int j = 0; j < columns; j += V::kLanes) {
                const std::ptrdiff_t at = std::ptrdiff_t{i} * kPanel + j;
                Reg derivative;
                V::store(values + at, activated<V>(activation, V::load(values + at), derivative));
                if (activation == Activation::gelu) {
                    V::store(derivatives + at, derivative);
                }
            }
        }
    }

    static void multiply_by_derivative(Activation activation, int rows, int columns, const float* from, float* grads) {
        for (int i = 0; i < rows; ++i) {
            for (int j = 0; j < columns; j += V::kLanes) {
                const std::ptrdiff_t at = std::ptrdiff_t{i} * kPanel + j;
                V::store(grads + at, times_derivative<V>(activation, V::load(grads + at), V::load(from + at)));
            }
        }
    }

    // SGD and Adam as torch.optim defines them, for the first `part` lanes.
    template <UpdateRule::Kind kKind>
    [[gnu::always_inline]] static void update_register(const UpdateRule& rule, Reg grad, float* weight, float* first,
                                                       float* second, int part) {
        const Reg w = V::load_part(weight, part);
        Reg m;
        Reg v;
        if constexpr (kKind != UpdateRule::Kind::sgd) {
            m = V::load_part(first, part);
        }
        if constexpr (kKind == UpdateRule::Kind::adam) {
            v = V::load_part(second, part);
        }
        const Reg changed = updated_weight<V, kKind>(rule, w, grad, m, v);
        if constexpr (kKind != UpdateRule::Kind::sgd) {
            V::store_part(first, m, part);
        }
        if constexpr (kKind == UpdateRule::Kind::adam) {
            V::store_part(second, v, part);
        }
        V::store_part(weight, changed, part);
    }

    template <UpdateRule::Kind kKind>
    static void update_row(const UpdateRule& rule, int count, const float* grad, const ParameterRows& at) {
        int j = 0;
        for (; j + V::kLanes <= count; j += V::kLanes) {
            update_register<kKind>(rule, V::load(grad + j), at.weight + j, at.first + j, at.second + j, V::kLanes);
        }
        if (j < count) {
            update_register<kKind>(rule, V::load_part(grad + j, count - j), at.weight + j, at.first + j, at.second + j,
                                   count - j);
        }
    }

    // State that a rule does not use may be null; the weights' pointer replaces it and is not accessed as state.
    static void update(const UpdateRule& rule, int count, const float* grad, const ParameterRows& at) {
        switch (rule.kind) {
            case UpdateRule::Kind::sgd:
                return update_row<UpdateRule::Kind::sgd>(rule, count, grad, {at.weight, at.weight, at.weight, 0});
            case UpdateRule::Kind::momentum:
                return update_row<UpdateRule::Kind::momentum>(rule, count, grad, {at.weight, at.first, at.weight, 0});
            case UpdateRule::Kind::adam:
                return update_row<UpdateRule::Kind::adam>(rule, count, grad, at);
        }
    }

    // Sixteen partial sums, by sample modulo 16, then a pairwise reduction.
    static void sample_sums(const float* grads, std::ptrdiff_t panel_stride, int rows, std::int64_t samples,
                            float* sums) {
        for (int i = 0; i < rows; ++i) {
            alignas(64) float part[kGroup] = {};
            const float* row = grads + std::ptrdiff_t{i} * kPanel;
            for (std::int64_t s = 0; s < samples; s += kGroup) {
                const float* group = row + s / kPanel * panel_stride + s % kPanel;
                for (int j = 0; j < kGroup; j += V::kLanes) {
                    V::store(part + j, V::add(V::load(part + j), V::load(group + j)));
                }
            }
            for (int half = kGroup / 2; half > 0; half /= 2) {
                for (int j = 0; j < half; ++j) {
                    part[j] += part[j + half];
                }
            }
            sums[i] = part[0];
        }
    }

    static void softmax(const float* logits, int classes, int columns, float scale, float share, float* grads,
                        SoftmaxSums& sums) {
        for (int j = 0; j < columns; j += V::kLanes) {
            Reg highest = V::load(logits + j);
            for (int c = 1; c < classes; ++c) {
                highest = V::max(highest, V::load(logits + std::ptrdiff_t{c} * kPanel + j));
            }
            Reg exps = V::set(0.0f);
            Reg total = V::set(0.0f);
            for (int c = 0; c < classes; ++c) {
                const Reg logit = V::load(logits + std::ptrdiff_t{c} * kPanel + j);
                const Reg e = vector_exp<V>(V::sub(logit, highest));
                exps = V::add(exps, e);
                total = V::add(total, logit);
                V::store(grads + std::ptrdiff_t{c} * kPanel + j, e);
            }
            const Reg factor = V::div(V::set(scale), exps);
            for (int c = 0; c < classes; ++c) {
                float* grad = grads + std::ptrdiff_t{c} * kPanel + j;
                V::store(grad, V::sub(V::mul(V::load(grad), factor), V::set(share)));
            }
            V::store(sums.highest + j, highest);
            V::store(sums.exps + j, exps);
            V::store(sums.logits + j, total);
        }
    }
};

}  // namespace stoker
