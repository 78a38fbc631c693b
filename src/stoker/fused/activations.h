// Activations and their derivatives for one register of values, on the CPU and, compiled by nvcc, on a GPU.
#pragma once

#include "stoker/fused/options.h"
#include "stoker/fused/vector_math.h"

namespace stoker {

// torch.nn.GELU: x * Phi(x) with the derivative Phi(x) + x * phi(x); Phi and phi are the normal distribution and
// density.
template <typename V>
constexpr typename V::Reg gelu(typename V::Reg x, typename V::Reg& derivative) {
    const auto half = V::set(0.5f);
    const auto distribution = V::fma(half, vector_erf<V>(V::mul(x, V::set(0.7071067812f))), half);
    const auto bell = vector_exp<V>(V::mul(V::mul(x, x), V::set(-0.5f)));
    derivative = V::fma(V::mul(x, V::set(0.3989422804f)), bell, distribution);
    return V::mul(x, distribution);
}

// Sets `derivative` for gelu only, whose derivative is not a function of its result.
template <typename V>
[[gnu::always_inline]] constexpr typename V::Reg activated(Activation activation, typename V::Reg x,
                                                           typename V::Reg& derivative) {
    switch (activation) {
        case Activation::relu:
            return V::max(V::set(0.0f), x);
        case Activation::tanh:
            return vector_tanh<V>(x);
        default:
            return gelu<V>(x, derivative);
    }
}

// `from`: the activation's result, or for gelu its derivative.
template <typename V>
[[gnu::always_inline]] constexpr typename V::Reg times_derivative(Activation activation, typename V::Reg grad,
                                                                  typename V::Reg from) {
    const auto zero = V::set(0.0f);
    switch (activation) {
        case Activation::relu:  // the result is positive exactly if the input was
            return V::where_less(zero, from, grad, zero);
        case Activation::tanh:
            return V::mul(grad, V::fma(V::sub(zero, from), from, V::set(1.0f)));
        default:
            return V::mul(grad, from);
    }
}

}  // namespace stoker
