// Spectrograms against the definition in double precision, for every kernel; all kernels return the same bits.
#include "stoker/ops/mel_spectrogram.h"

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <cstring>
#include <numbers>
#include <vector>

#include "stoker/base/error.h"
#include "stoker/ops/mel_plan.h"

namespace stoker {
namespace {

std::vector<float> noise(int samples, std::uint64_t seed) {
    Rng rng({.seed = seed});
    std::vector<float> sound(static_cast<std::size_t>(samples));
    for (float& value : sound) {
        value = rng.uniform(-1, 1);
    }
    return sound;
}

ConstPlanesView planes_of(const std::vector<float>& sound) {
    const auto samples = static_cast<int>(sound.size());
    return {sound.data(), 1, 1, samples, samples, samples};
}

std::vector<float> values_of(PlanesView image) {
    return {image.data, image.data + image.channels * image.step};
}

std::vector<float> spectrogram(const MelOptions& options, const std::vector<float>& sound,
                               const MelKernels& kernels = mel_kernels().back()) {
    const MelSpectrogram mel(options);
    Planes out;
    Buffer scratch;
    const PlanesView view = out.reset(1, options.n_mels, mel.frames(static_cast<int>(sound.size())));
    mel.run_with(kernels, planes_of(sound), view, scratch);
    return values_of(view);
}

double mel_of(double hz) {
    return 2595 * std::log10(1 + hz / 700);
}

double hz_of(double mel) {
    return 700 * (std::pow(10, mel / 2595) - 1);
}

// One value by the definition: a Hann window, a sum over all samples for each frequency, triangles in HTK's mel.
double exact(const MelOptions& options, const std::vector<float>& sound, int band, int frame) {
    const int n = options.n_fft;
    const int hop = options.hop_length == 0 ? n / 2 : options.hop_length;
    const auto samples = static_cast<int>(sound.size());
    std::vector<double> windowed(static_cast<std::size_t>(n));
    for (int i = 0; i < n; ++i) {
        int at = frame * hop + i - n / 2;
        at = at < 0 ? -at : at >= samples ? 2 * samples - 2 - at : at;
        windowed[static_cast<std::size_t>(i)] = static_cast<double>(sound[static_cast<std::size_t>(at)]) *
                                                (0.5 - 0.5 * std::cos(2 * std::numbers::pi * i / n));
    }
    const double step = mel_of(options.sample_rate / 2.0) / (options.n_mels + 1);
    const double low = hz_of(step * band);
    const double middle = hz_of(step * (band + 1));
    const double high = hz_of(step * (band + 2));
    double sum = 0;
    for (int k = 0; k <= n / 2; ++k) {
        const double hz = static_cast<double>(k) * options.sample_rate / n;
        const double weight = std::min((hz - low) / (middle - low), (high - hz) / (high - middle));
        if (weight <= 0) {
            continue;
        }
        std::complex<double> value;
        for (int i = 0; i < n; ++i) {
            value += std::polar(windowed[static_cast<std::size_t>(i)], -2 * std::numbers::pi * k * i / n);
        }
        sum += weight * (options.power == 1 ? std::abs(value) : std::norm(value));
    }
    return sum;
}

class MelOfSize : public ::testing::TestWithParam<MelOptions> {};

TEST_P(MelOfSize, IsTheDefinition) {
    const MelOptions options = GetParam();
    const std::vector<float> sound = noise(3 * options.n_fft + 77, 5);
    const std::vector<float> got = spectrogram(options, sound);
    const auto frames = static_cast<int>(got.size()) / options.n_mels;
    double largest = 0;
    double difference = 0;
    for (int band = 0; band < options.n_mels; ++band) {
        for (const int frame : {0, 1, frames / 2, frames - 1}) {
            const double value = exact(options, sound, band, frame);
            largest = std::max(largest, value);
            difference =
                std::max(difference,
                         std::abs(value - static_cast<double>(got[static_cast<std::size_t>(band * frames + frame)])));
        }
    }
    EXPECT_LT(difference, 2e-6 * largest);
}

// Every radix with a formula, some without, powers of two, odd sizes, and more frames than lanes.
INSTANTIATE_TEST_SUITE_P(
    Sizes, MelOfSize,
    ::testing::Values(MelOptions{.n_fft = 400, .hop_length = 10, .n_mels = 20}, MelOptions{.n_fft = 2, .n_mels = 1},
                      MelOptions{.n_fft = 81, .n_mels = 5}, MelOptions{.n_fft = 128, .hop_length = 3, .n_mels = 8},
                      MelOptions{.n_fft = 125, .n_mels = 7}, MelOptions{.n_fft = 7 * 11 * 2, .n_mels = 9, .power = 1},
                      MelOptions{.n_fft = 127, .n_mels = 6}, MelOptions{.sample_rate = 44100, .n_fft = 1102}));

TEST(MelSpectrogram, EveryKernelHasTheSameBits) {
    const std::vector<float> sound = noise(9000, 3);
    const MelOptions options{.n_fft = 420, .hop_length = 37, .n_mels = 30};
    const std::vector<float> best = spectrogram(options, sound);
    for (const MelKernels& kernels : mel_kernels()) {
        SCOPED_TRACE(kernels.name);
        const std::vector<float> got = spectrogram(options, sound, kernels);
        ASSERT_EQ(got.size(), best.size());
        EXPECT_EQ(std::memcmp(got.data(), best.data(), got.size() * sizeof(float)), 0);
        std::vector<float> values = noise(1000, 4);
        std::vector<float> wanted = values;
        kernels.to_db(values.data(), values.size(), 10);
        mel_kernels().front().to_db(wanted.data(), wanted.size(), 10);
        EXPECT_EQ(std::memcmp(values.data(), wanted.data(), values.size() * sizeof(float)), 0);
    }
}

TEST(MelSpectrogram, RefusesShortSounds) {
    EXPECT_THROW(spectrogram({.n_fft = 400}, noise(200, 1)), DataError);
    EXPECT_NO_THROW(spectrogram({.n_fft = 400}, noise(201, 1)));
    EXPECT_THROW(MelSpectrogram({.sample_rate = 8000, .f_max = 5000}), InvalidArgument);
    EXPECT_THROW(MelSpectrogram({.n_fft = 131}), InvalidArgument);
}

TEST(AmplitudeToDb, IsTheLogarithm) {
    std::vector<float> values = {0, 1e-12f, 1e-10f, 1e-5f, 0.5f, 0.70710677f, 0.7071068f, 1, 1.4142135f, 3, 1e9f};
    const std::vector<float> powers = values;
    const auto count = static_cast<int>(values.size());
    const PlanesView image{values.data(), 1, 1, count, count, count};
    amplitude_to_db({}, image);
    for (std::size_t i = 0; i < values.size(); ++i) {
        const double value = 10 * std::log10(std::max(static_cast<double>(powers[i]), 1e-10));
        EXPECT_NEAR(static_cast<double>(values[i]), value, 1e-5 + 2e-7 * std::abs(value)) << powers[i];
    }
    values = powers;
    amplitude_to_db({.top_db = 80}, image);
    EXPECT_NEAR(values.front(), 10, 1e-4);
    EXPECT_NEAR(values.back(), 90, 1e-4);
}

TEST(SpecAugment, MasksAsItDraws) {
    const int bands = 40;
    const int frames = 100;
    Planes memory;
    const SpecAugment op{.n_time_masks = 1, .time_mask_param = 30, .n_freq_masks = 1, .freq_mask_param = 20, .p = 0.2f};
    std::size_t masked = 0;
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
        const PlanesView image = memory.reset(2, bands, frames);
        std::vector<float> before = noise(2 * bands * frames, seed);
        std::copy(before.begin(), before.end(), image.data);
        double mean = 0;
        for (const float value : before) {
            mean += static_cast<double>(value) / static_cast<double>(before.size());
        }
        Rng rng({.seed = seed});
        spec_augment(image, op, rng);
        Rng same({.seed = seed});
        const float width = same.uniform() * 20;  // p: at most a fifth of the frames
        const float begin = same.uniform() * (frames - width);
        const float height = same.uniform() * 8;
        const float top = same.uniform() * (bands - height);
        for (int c = 0; c < 2; ++c) {
            for (int y = 0; y < bands; ++y) {
                for (int x = 0; x < frames; ++x) {
                    const bool column =
                        x >= static_cast<int>(begin) && x < static_cast<int>(begin) + static_cast<int>(width);
                    const bool row = y >= static_cast<int>(top) && y < static_cast<int>(top) + static_cast<int>(height);
                    const float was = before[static_cast<std::size_t>((c * bands + y) * frames + x)];
                    masked += column || row;
                    ASSERT_FLOAT_EQ(image.plane(c).row(y)[x], column || row ? static_cast<float>(mean) : was);
                }
            }
        }
    }
    EXPECT_GT(masked, 0U);
}

}  // namespace
}  // namespace stoker
