// Elementwise loops: activations, their derivatives, the optimiser's update, softmax. Templates over a register type V;
// the plain set's register is a float.
#pragma once

#include "stoker/fused/fused_kernels.h"
#include "stoker/fused/vector_math.h"

namespace stoker {

template <typename V>
struct RowKernels {
    using Reg = typename V::Reg;

    // torch.nn.GELU: x * Phi(x) with the derivative Phi(x) + x * phi(x); Phi and phi are the normal distribution and
    // density.
    static Reg gelu(Reg x, Reg& derivative) {
        const Reg half = V::set(0.5f);
        const Reg distribution = V::fma(half, vector_erf<V>(V::mul(x, V::set(0.7071067812f))), half);
        const Reg bell = vector_exp<V>(V::mul(V::mul(x, x), V::set(-0.5f)));
        derivative = V::fma(V::mul(x, V::set(0.3989422804f)), bell, distribution);
        return V::mul(x, distribution);
    }

    static void activate(Activation activation, int rows, int columns, float* values, float* derivatives) {
        for (int i = 0; i < rows; ++i) {
            for (int j = 0; j < columns; j += V::kLanes) {
                const std::ptrdiff_t at = std::ptrdiff_t{i} * kPanel + j;
                const Reg x = V::load(values + at);
                Reg derivative;
                switch (activation) {
                    case Activation::relu:
                        V::store(values + at, V::max(V::set(0.0f), x));
                        break;
                    case Activation::tanh:
                        V::store(values + at, vector_tanh<V>(x));
                        break;
                    case Activation::gelu:
                        V::store(values + at, gelu(x, derivative));
                        V::store(derivatives + at, derivative);
                        break;
                }
            }
        }
    }

    static void multiply_by_derivative(Activation activation, int rows, int columns, const float* from, float* grads) {
        const Reg zero = V::set(0.0f);
        for (int i = 0; i < rows; ++i) {
            for (int j = 0; j < columns; j += V::kLanes) {
                const std::ptrdiff_t at = std::ptrdiff_t{i} * kPanel + j;
                const Reg grad = V::load(grads + at);
                const Reg y = V::load(from + at);
                switch (activation) {
                    case Activation::relu:  // the result is positive exactly if the input was
                        V::store(grads + at, V::where_less(zero, y, grad, zero));
                        break;
                    case Activation::tanh:
                        V::store(grads + at, V::mul(grad, V::fma(V::sub(zero, y), y, V::set(1.0f))));
                        break;
                    case Activation::gelu:
                        V::store(grads + at, V::mul(grad, y));
                        break;
                }
            }
        }
    }

    // SGD and Adam as torch.optim defines them, for the first `part` lanes.
    template <UpdateRule::Kind kKind>
    [[gnu::always_inline]] static void update_register(const UpdateRule& rule, Reg grad, float* weight, float* first,
                                                       float* second, int part) {
        Reg w = V::load_part(weight, part);
        grad = V::fma(V::set(rule.l2), w, grad);
        w = V::mul(V::set(rule.keep), w);
        Reg move = grad;
        if constexpr (kKind == UpdateRule::Kind::momentum) {
            const Reg buffer = V::fma(V::set(rule.momentum), V::load_part(first, part), grad);
            V::store_part(first, buffer, part);
            move = V::fma(V::set(rule.from_buffer), buffer, V::mul(V::set(rule.from_grad), grad));
        } else if constexpr (kKind == UpdateRule::Kind::adam) {
            const Reg old = V::load_part(first, part);
            const Reg m = V::fma(V::set(rule.rest1), V::sub(grad, old), old);
            const Reg squares = V::mul(V::set(rule.rest2), V::mul(grad, grad));
            const Reg v = V::fma(V::set(rule.beta2), V::load_part(second, part), squares);
            V::store_part(first, m, part);
            V::store_part(second, v, part);
            move = V::div(m, V::fma(V::sqrt(v), V::set(rule.root_scale), V::set(rule.eps)));
        }
        V::store_part(weight, V::fma(V::set(rule.step), move, w), part);
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
