// exp, tanh and erf on vectors of float32. The order of operations is the same for every width, so all kernel sets give
// the same bits. Our own minimax polynomials, within 2 ulp (exp, tanh) or 1e-7 (erf). V is a kernel set's register
// type.
#pragma once

namespace stoker {

template <typename V, int N>
constexpr typename V::Reg polynomial(typename V::Reg x, const float (&c)[N]) {
    typename V::Reg sum = V::set(c[N - 1]);
    for (int i = N - 2; i >= 0; --i) {
        sum = V::fma(sum, x, V::set(c[i]));
    }
    return sum;
}

// 2^n * e^r with |r| <= ln(2) / 2. The argument is clamped to [-87, 88]; NaN stays NaN.
template <typename V>
constexpr typename V::Reg vector_exp(typename V::Reg x) {
    constexpr float kExp[] = {1.0f,           1.0f, 4.999999106e-1f, 1.666641980e-1f, 4.166823253e-2f, 8.374893107e-3f,
                              1.383674447e-3f};
    const auto bound = V::min(V::set(88.0f), V::max(V::set(-87.0f), x));
    // Adding 1.5 * 2^23 rounds to an integer and leaves it in the low bits.
    const auto magic = V::set(12582912.0f);
    const auto shifted = V::fma(bound, V::set(1.442695041f), magic);
    const auto n = V::sub(shifted, magic);
    auto r = V::fma(n, V::set(-0.693359375f), bound);  // ln(2) in two parts, the first with few bits
    r = V::fma(n, V::set(2.12194440e-4f), r);
    return V::add_exponent(polynomial<V>(r, kExp), shifted);
}

template <typename V>
constexpr typename V::Reg vector_tanh(typename V::Reg x) {
    constexpr float kTanh[] = {-3.333333433e-1f, 1.333329827e-1f,  -5.395795405e-2f,
                               2.175814286e-2f,  -8.308496326e-3f, 2.252632054e-3f};
    const auto square = V::mul(x, x);
    const auto small = V::fma(V::mul(x, square), polynomial<V>(square, kTanh), x);
    const auto magnitude = V::abs(x);
    const auto e = vector_exp<V>(V::add(magnitude, magnitude));
    const auto large = V::sub(V::set(1.0f), V::div(V::set(2.0f), V::add(e, V::set(1.0f))));
    return V::where_less(magnitude, V::set(0.625f), small, V::with_sign(large, x));
}

template <typename V>
constexpr typename V::Reg vector_erf(typename V::Reg x) {
    constexpr float kErf[] = {1.128379226e+0f, -3.761263788e-1f, 1.128378287e-1f, -2.686544508e-2f,
                              5.221074913e-3f, -8.484711288e-4f, 1.127054493e-4f, -9.680136827e-6f};
    // log(erfc) on [1, 4]; beyond 4 erf is 1 in float32.
    constexpr float kLogErfc[] = {1.880402269e-4f, -1.129578471e+0f, -6.332198977e-1f, -1.084185764e-1f,
                                  2.520825714e-2f, -4.204561934e-3f, 4.413363640e-4f,  -2.168685023e-5f};
    const auto magnitude = V::min(V::set(4.0f), V::abs(x));
    const auto small = V::mul(x, polynomial<V>(V::mul(x, x), kErf));
    const auto large = V::sub(V::set(1.0f), vector_exp<V>(polynomial<V>(magnitude, kLogErfc)));
    return V::where_less(magnitude, V::set(1.0f), small, V::with_sign(large, x));
}

}  // namespace stoker
