// How the optimiser changes a weight, on the CPU and on a GPU: nvcc compiles constexpr functions for both.
#pragma once

#include "stoker/fused/options.h"

namespace stoker {

// torch.optim's update of one weight; the factors that all weights share are precomputed.
struct UpdateRule {
    enum class Kind { sgd, momentum, adam };
    Kind kind;
    float step;      // SGD: -lr; Adam: -lr / (1 - beta1^t)
    float keep = 1;  // AdamW: 1 - lr * weight_decay
    float l2 = 0;    // SGD, Adam: weight_decay
    float momentum = 0;
    float from_grad = 0;  // SGD direction: from_grad * grad + from_buffer * buffer
    float from_buffer = 1;
    float beta2 = 0;
    float rest1 = 0;       // 1 - beta1
    float rest2 = 0;       // 1 - beta2
    float root_scale = 0;  // 1 / sqrt(1 - beta2^t)
    float eps = 0;
};

// The factors are computed in double precision. `power1` and `power2`: beta1 and beta2 to the power of the step's
// number, counted from 1; `root2`: the square root of 1 - power2.
constexpr UpdateRule rule_of(const FusedOptimizer& optimizer, double lr, double power1, double root2) {
    const auto f = [](double value) { return static_cast<float>(value); };
    const bool decoupled = optimizer.kind == FusedOptimizer::Kind::adamw;
    const float l2 = decoupled ? 0.0f : f(optimizer.weight_decay);
    if (optimizer.kind == FusedOptimizer::Kind::sgd) {
        return {.kind = optimizer.momentum != 0 ? UpdateRule::Kind::momentum : UpdateRule::Kind::sgd,
                .step = f(-lr),
                .l2 = l2,
                .momentum = f(optimizer.momentum),
                .from_grad = optimizer.nesterov ? 1.0f : 0.0f,
                .from_buffer = optimizer.nesterov ? f(optimizer.momentum) : 1.0f};
    }
    return {.kind = UpdateRule::Kind::adam,
            .step = f(-lr / (1 - power1)),
            .keep = decoupled ? f(1 - lr * optimizer.weight_decay) : 1.0f,
            .l2 = l2,
            .beta2 = f(optimizer.beta2),
            .rest1 = f(1 - optimizer.beta1),
            .rest2 = f(1 - optimizer.beta2),
            .root_scale = f(1 / root2),
            .eps = f(optimizer.eps)};
}

// The weight after the update; V is a register type, such as row_kernels.h's. `first` and `second` are the optimiser's
// state, if the rule has it.
template <typename V, UpdateRule::Kind kKind>
[[gnu::always_inline]] constexpr typename V::Reg updated_weight(const UpdateRule& rule, typename V::Reg w,
                                                                typename V::Reg grad, typename V::Reg& first,
                                                                typename V::Reg& second) {
    grad = V::fma(V::set(rule.l2), w, grad);
    w = V::mul(V::set(rule.keep), w);
    auto move = grad;
    if constexpr (kKind == UpdateRule::Kind::momentum) {
        first = V::fma(V::set(rule.momentum), first, grad);
        move = V::fma(V::set(rule.from_buffer), first, V::mul(V::set(rule.from_grad), grad));
    } else if constexpr (kKind == UpdateRule::Kind::adam) {
        first = V::fma(V::set(rule.rest1), V::sub(grad, first), first);
        const auto squares = V::mul(V::set(rule.rest2), V::mul(grad, grad));
        second = V::fma(V::set(rule.beta2), second, squares);
        move = V::div(first, V::fma(V::sqrt(second), V::set(rule.root_scale), V::set(rule.eps)));
    }
    return V::fma(V::set(rule.step), move, w);
}

}  // namespace stoker
