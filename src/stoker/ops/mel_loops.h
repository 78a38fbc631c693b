// Fourier transforms and bands of several frames at once: a vector holds the same element of all of them, so that the
// code is that of one. Each instruction set compiles the loops again. Internal to ops/.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <numbers>

#include "stoker/ops/mel_plan.h"
#include "stoker/ops/mel_spectrogram.h"

#define STOKER_INLINE [[gnu::always_inline]] inline

namespace stoker::mel_loops {

// One element of `lanes` frames.
template <int lanes>
struct Vec {
    using Floats [[gnu::vector_size(lanes * sizeof(float))]] = float;
    Floats re;
    Floats im;
};

template <int lanes>
STOKER_INLINE void times(Vec<lanes>& value, MelComplex by) {
    const auto re = value.re * by.re - value.im * by.im;
    value.im = value.re * by.im + value.im * by.re;
    value.re = re;
}

// The Fourier transforms of `radix` values, in place.
template <int lanes>
STOKER_INLINE void transform2(Vec<lanes>* a) {
    const Vec<lanes> first = a[0];
    a[0] = {first.re + a[1].re, first.im + a[1].im};
    a[1] = {first.re - a[1].re, first.im - a[1].im};
}

template <int lanes>
STOKER_INLINE void transform3(Vec<lanes>* a) {
    constexpr auto kSine = static_cast<float>(std::numbers::sqrt3 / 2);
    const Vec<lanes> sum = {a[1].re + a[2].re, a[1].im + a[2].im};
    const Vec<lanes> turned = {(a[1].im - a[2].im) * kSine, (a[2].re - a[1].re) * kSine};
    const Vec<lanes> middle = {a[0].re - sum.re * 0.5f, a[0].im - sum.im * 0.5f};
    a[0] = {a[0].re + sum.re, a[0].im + sum.im};
    a[1] = {middle.re + turned.re, middle.im + turned.im};
    a[2] = {middle.re - turned.re, middle.im - turned.im};
}

template <int lanes>
STOKER_INLINE void transform4(Vec<lanes>* a) {
    const Vec<lanes> even = {a[0].re + a[2].re, a[0].im + a[2].im};
    const Vec<lanes> even_rest = {a[0].re - a[2].re, a[0].im - a[2].im};
    const Vec<lanes> odd = {a[1].re + a[3].re, a[1].im + a[3].im};
    const Vec<lanes> odd_rest = {a[1].im - a[3].im, a[3].re - a[1].re};
    a[0] = {even.re + odd.re, even.im + odd.im};
    a[1] = {even_rest.re + odd_rest.re, even_rest.im + odd_rest.im};
    a[2] = {even.re - odd.re, even.im - odd.im};
    a[3] = {even_rest.re - odd_rest.re, even_rest.im - odd_rest.im};
}

template <int lanes>
STOKER_INLINE void transform5(Vec<lanes>* a) {
    constexpr float kCosine1 = 0.309016994374947424F;  // of 72 degrees
    constexpr float kCosine2 = -0.809016994374947424F;
    constexpr float kSine1 = 0.951056516295153572F;
    constexpr float kSine2 = 0.587785252292473129F;
    const Vec<lanes> outer = {a[1].re + a[4].re, a[1].im + a[4].im};
    const Vec<lanes> inner = {a[2].re + a[3].re, a[2].im + a[3].im};
    const Vec<lanes> outer_rest = {a[1].im - a[4].im, a[4].re - a[1].re};
    const Vec<lanes> inner_rest = {a[2].im - a[3].im, a[3].re - a[2].re};
    const Vec<lanes> middle1 = {a[0].re + outer.re * kCosine1 + inner.re * kCosine2,
                                a[0].im + outer.im * kCosine1 + inner.im * kCosine2};
    const Vec<lanes> middle2 = {a[0].re + outer.re * kCosine2 + inner.re * kCosine1,
                                a[0].im + outer.im * kCosine2 + inner.im * kCosine1};
    const Vec<lanes> rest1 = {outer_rest.re * kSine1 + inner_rest.re * kSine2,
                              outer_rest.im * kSine1 + inner_rest.im * kSine2};
    const Vec<lanes> rest2 = {outer_rest.re * kSine2 - inner_rest.re * kSine1,
                              outer_rest.im * kSine2 - inner_rest.im * kSine1};
    a[0] = {a[0].re + outer.re + inner.re, a[0].im + outer.im + inner.im};
    a[1] = {middle1.re + rest1.re, middle1.im + rest1.im};
    a[2] = {middle2.re + rest2.re, middle2.im + rest2.im};
    a[3] = {middle2.re - rest2.re, middle2.im - rest2.im};
    a[4] = {middle1.re - rest1.re, middle1.im - rest1.im};
}

// The definition, for any radix.
template <int lanes>
STOKER_INLINE void transform_any(Vec<lanes>* a, const std::vector<MelComplex>& roots) {
    const std::size_t radix = roots.size();
    Vec<lanes> result[kMostFftFactor];
    for (std::size_t k = 0; k < radix; ++k) {
        result[k] = a[0];
        for (std::size_t j = 1; j < radix; ++j) {
            Vec<lanes> term = a[j];
            times(term, roots[j * k % radix]);
            result[k].re += term.re;
            result[k].im += term.im;
        }
    }
    std::copy_n(result, radix, a);
}

// `span`: the number of interleaved transforms. `radix`: 0 for those without a formula.
template <int lanes, int radix>
STOKER_INLINE void run_stage(const MelStage& stage, int n, int span, const Vec<lanes>* from, Vec<lanes>* to) {
    const int factor = radix == 0 ? stage.radix : radix;
    const int part = n / factor / span;
    Vec<lanes> a[radix == 0 ? kMostFftFactor : radix];
    for (int q = 0; q < part; ++q) {
        const MelComplex* twiddles = stage.twiddles.data() + std::ptrdiff_t{q} * (factor - 1);
        for (int s = 0; s < span; ++s) {
            for (int j = 0; j < factor; ++j) {
                a[j] = from[s + span * (q + part * j)];
            }
            if constexpr (radix == 2) {
                transform2<lanes>(a);
            } else if constexpr (radix == 3) {
                transform3<lanes>(a);
            } else if constexpr (radix == 4) {
                transform4<lanes>(a);
            } else if constexpr (radix == 5) {
                transform5<lanes>(a);
            } else {
                transform_any<lanes>(a, stage.roots);
            }
            to[s + span * factor * q] = a[0];
            for (int k = 1; k < factor; ++k) {
                times(a[k], twiddles[k - 1]);
                to[s + span * (factor * q + k)] = a[k];
            }
        }
    }
}

// Returns the one of the two that holds the result.
template <int lanes>
STOKER_INLINE Vec<lanes>* transform(const MelPlan& plan, Vec<lanes>* from, Vec<lanes>* to) {
    int span = 1;
    for (const MelStage& stage : plan.stages) {
        switch (stage.radix) {
            case 2:
                run_stage<lanes, 2>(stage, plan.n_fft, span, from, to);
                break;
            case 3:
                run_stage<lanes, 3>(stage, plan.n_fft, span, from, to);
                break;
            case 4:
                run_stage<lanes, 4>(stage, plan.n_fft, span, from, to);
                break;
            case 5:
                run_stage<lanes, 5>(stage, plan.n_fft, span, from, to);
                break;
            default:
                run_stage<lanes, 0>(stage, plan.n_fft, span, from, to);
                break;
        }
        std::swap(from, to);
        span *= stage.radix;
    }
    return from;
}

// The powers of two real frames from the transform of one complex: the first was its real part.
template <int lanes>
STOKER_INLINE void to_powers(const MelPlan& plan, const Vec<lanes>* spectrum, Vec<lanes>* powers) {
    for (int k = 0; k <= plan.n_fft / 2; ++k) {
        const Vec<lanes> one = spectrum[k];
        const Vec<lanes> mirrored = spectrum[k == 0 ? 0 : plan.n_fft - k];
        const auto first_re = one.re + mirrored.re;
        const auto first_im = one.im - mirrored.im;
        const auto second_re = one.im + mirrored.im;
        const auto second_im = mirrored.re - one.re;
        powers[k] = {first_re * first_re + first_im * first_im, second_re * second_re + second_im * second_im};
    }
    if (plan.power == 1) {
        float* values = reinterpret_cast<float*>(powers);
        for (int i = 0; i < (plan.n_fft / 2 + 1) * 2 * lanes; ++i) {
            values[i] = std::sqrt(values[i]);
        }
    }
}

// The padded sound's samples, hop by hop, as columns: sample i of frame t is in row i % hop, column t + i / hop, next
// to that of frame t + 1. Columns behind the sound are 0.
STOKER_INLINE void arrange(const MelPlan& plan, const MelRows& rows, float* columns) {
    const std::ptrdiff_t hop = plan.hop;
    const std::ptrdiff_t count = mel_columns(plan, rows.frames);
    const std::ptrdiff_t samples = rows.samples;
    const auto reflected = [&](std::ptrdiff_t at) {
        at = at < 0 ? -at : at >= samples ? 2 * samples - 2 - at : at;
        return at >= 0 && at < samples ? rows.sound[at] : 0.0f;
    };
    for (std::ptrdiff_t first = 0; first < count; first += kMostMelLanes) {
        const std::ptrdiff_t begin = first * hop - plan.n_fft / 2;
        const bool inside = begin >= 0 && begin + kMostMelLanes * hop <= samples;
        for (std::ptrdiff_t row = 0; row < hop; ++row) {
            float* const to = columns + row * count + first;
            for (int l = 0; l < kMostMelLanes; ++l) {
                const std::ptrdiff_t at = begin + l * hop + row;
                to[l] = inside ? rows.sound[at] : reflected(at);
            }
        }
    }
}

// The frames `first` + l as real parts, with `second` + l as imaginary parts.
template <int lanes>
STOKER_INLINE void load(const MelPlan& plan, const float* columns, std::ptrdiff_t count, int first, int second,
                        Vec<lanes>* to) {
    int row = 0;
    for (int i = 0; i < plan.n_fft; ++i) {
        const float* const from = columns + row * count;
        std::memcpy(&to[i].re, from + first, sizeof to[i].re);
        std::memcpy(&to[i].im, from + second, sizeof to[i].im);
        to[i].re *= plan.window[static_cast<std::size_t>(i)];
        to[i].im *= plan.window[static_cast<std::size_t>(i)];
        if (++row == plan.hop) {
            row = 0;
            ++columns;
        }
    }
}

// Frames are in the same pairs with any number of lanes, since the two of a pair share their rounding.
template <int lanes>
STOKER_INLINE void run(const MelPlan& plan, const MelRows& rows) {
    auto* const buffers = reinterpret_cast<Vec<lanes>*>(rows.scratch);
    Vec<lanes>* const other = buffers + plan.n_fft;
    float* const columns = rows.scratch + mel_buffer_floats(plan);
    const std::ptrdiff_t count = mel_columns(plan, rows.frames);
    arrange(plan, rows, columns);
    for (int block = 0; block < rows.frames; block += 2 * kMostMelLanes) {
        for (int first = block; first < std::min(block + kMostMelLanes, rows.frames); first += lanes) {
            const int second = first + kMostMelLanes;
            load<lanes>(plan, columns, count, first, second, buffers);
            Vec<lanes>* const spectrum = transform<lanes>(plan, buffers, other);
            Vec<lanes>* const powers = spectrum == buffers ? other : buffers;
            to_powers<lanes>(plan, spectrum, powers);
            const auto bytes = [&](int frame) {
                return static_cast<std::size_t>(std::clamp(rows.frames - frame, 0, lanes)) * sizeof(float);
            };
            float* out = rows.out;
            for (const MelBand& band : plan.bands) {
                Vec<lanes> sum = {};
                const Vec<lanes>* power = powers + band.first;
                for (const float weight : band.weights) {
                    sum.re += power->re * weight;
                    sum.im += power->im * weight;
                    ++power;
                }
                std::memcpy(out + first, &sum.re, bytes(first));
                std::memcpy(out + second, &sum.im, bytes(second));
                out += rows.stride;
            }
        }
    }
}

// The logarithm's series in (m - 1) / (m + 1), for a mantissa m from sqrt(1/2) to sqrt(2): within 2^-23 of the result.
STOKER_INLINE void to_db(float* values, std::size_t count, float multiplier) {
    constexpr auto kLog10Of2 = static_cast<float>(std::numbers::ln2 / std::numbers::ln10);
    constexpr auto kTwoLog10E = static_cast<float>(2 / std::numbers::ln10);
    for (std::size_t i = 0; i < count; ++i) {
        const float value = values[i] > 1e-10f ? values[i] : 1e-10f;
        const auto bits = std::bit_cast<std::int32_t>(value);
        const std::int32_t exponent = (bits - 0x3F3504F3) >> 23;  // from the bits of sqrt(1/2)
        const auto mantissa = std::bit_cast<float>(bits - exponent * (1 << 23));
        const float s = (mantissa - 1) / (mantissa + 1);
        const float s2 = s * s;
        const float series = s + s * s2 * (1.0f / 3 + s2 * (1.0f / 5 + s2 * (1.0f / 7 + s2 * (1.0f / 9 + s2 / 11))));
        values[i] = multiplier * (static_cast<float>(exponent) * kLog10Of2 + series * kTwoLog10E);
    }
}

}  // namespace stoker::mel_loops
