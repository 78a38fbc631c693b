// The tables that a MelSpectrogram computes once, and its loops, one for each instruction set. Internal to ops/.
#pragma once

#include <cstddef>
#include <vector>

namespace stoker {

struct MelComplex {
    float re;
    float im;
};

// One step of Stockham's Fourier transform, which divides lengths by `radix`.
struct MelStage {
    int radix = 0;
    std::vector<MelComplex> twiddles = {};  // exp(-2 pi i q k / length): (length / radix, radix - 1), k from 1
    std::vector<MelComplex> roots = {};     // exp(-2 pi i k / radix), for radices without formulas
};

// A band's weights, for neighbouring frequencies.
struct MelBand {
    int first = 0;
    std::vector<float> weights;
};

struct MelPlan {
    int n_fft = 0;
    int hop = 0;
    int power = 2;
    std::vector<float> window;  // n_fft, halved
    std::vector<MelStage> stages;
    std::vector<MelBand> bands;
};

// The frames of one channel.
struct MelRows {
    const float* sound = nullptr;
    int samples = 0;
    int frames = 0;
    float* out = nullptr;  // band m, frame t at out + m * stride + t
    std::ptrdiff_t stride = 0;
    float* scratch = nullptr;  // mel_scratch_floats(plan, frames), aligned to 64 bytes
};

inline constexpr int kMostMelLanes = 16;  // frames at a time, twice: one as real, one as imaginary parts

// The two buffers of a Fourier transform.
inline std::size_t mel_buffer_floats(const MelPlan& plan) {
    return static_cast<std::size_t>(plan.n_fft) * 4 * kMostMelLanes;
}

// Hops of the padded sound, for all frames that are computed.
inline std::ptrdiff_t mel_columns(const MelPlan& plan, int frames) {
    constexpr std::ptrdiff_t kBlock = 2 * kMostMelLanes;
    const std::ptrdiff_t computed = (std::ptrdiff_t{frames} + kBlock - 1) / kBlock * kBlock;
    return (computed + plan.n_fft / plan.hop + kMostMelLanes) / kMostMelLanes * kMostMelLanes;
}

inline std::size_t mel_scratch_floats(const MelPlan& plan, int frames) {
    return mel_buffer_floats(plan) + static_cast<std::size_t>(mel_columns(plan, frames) * plan.hop);
}

struct MelKernels {
    const char* name;  // plain, avx2, avx512
    void (*run)(const MelPlan& plan, const MelRows& rows);
    // multiplier * log10(max(value, 1e-10)) in place.
    void (*to_db)(float* values, std::size_t count, float multiplier);
};

// The vector sets that this processor supports, slowest first. Only on x86-64.
std::vector<MelKernels> x86_mel_kernels();

// All sets that this processor supports, slowest first. All compute the same bits.
const std::vector<MelKernels>& mel_kernels();

}  // namespace stoker
