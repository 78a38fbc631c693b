// The plan of a spectrogram: window, twiddles and bands, in double precision. The scales are Slaney's (Auditory
// Toolbox, 1998) and HTK's (the HTK Book, 2006, 5.4).
#include "stoker/ops/mel_spectrogram.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <numbers>

#include "stoker/base/error.h"
#include "stoker/ops/mel_loops.h"

namespace stoker {
namespace {

void run_plain(const MelPlan& plan, const MelRows& rows) {
    mel_loops::run<4>(plan, rows);
}

void to_db_plain(float* values, std::size_t count, float multiplier) {
    mel_loops::to_db(values, count, multiplier);
}

// Empty if one factor is too large.
std::vector<int> factors_of(int n) {
    std::vector<int> factors;
    while (n % 4 == 0) {
        factors.push_back(4);
        n /= 4;
    }
    for (int factor = 2; n > 1; ++factor) {
        if (factor > kMostFftFactor) {
            return {};
        }
        for (; n % factor == 0; n /= factor) {
            factors.push_back(factor);
        }
    }
    return factors;
}

MelComplex root(std::int64_t k, std::int64_t n) {
    const double angle = -2 * std::numbers::pi * static_cast<double>(k % n) / static_cast<double>(n);
    return {static_cast<float>(std::cos(angle)), static_cast<float>(std::sin(angle))};
}

std::vector<MelStage> stages_of(int n) {
    std::vector<MelStage> stages;
    for (const int radix : factors_of(n)) {
        MelStage stage{.radix = radix};
        for (int q = 0; q < n / radix; ++q) {
            for (int k = 1; k < radix; ++k) {
                stage.twiddles.push_back(root(std::int64_t{q} * k, n));
            }
        }
        for (int k = 0; k < radix && radix > 5; ++k) {
            stage.roots.push_back(root(k, radix));
        }
        stages.push_back(std::move(stage));
        n /= radix;
    }
    return stages;
}

struct MelScale {
    static constexpr double kLinear = 200.0 / 3;  // Slaney's Hz of one mel below 1000 Hz
    static constexpr double kKnee = 1000;
    static constexpr double kStep = 0.06875177742094912;  // ln(6.4) / 27, of one mel above

    bool slaney = false;

    double mel(double hz) const {
        if (!slaney) {
            return 2595 * std::log10(1 + hz / 700);
        }
        return hz < kKnee ? hz / kLinear : kKnee / kLinear + std::log(hz / kKnee) / kStep;
    }
    double hz(double mel) const {
        if (!slaney) {
            return 700 * (std::pow(10, mel / 2595) - 1);
        }
        const double knee = kKnee / kLinear;
        return mel < knee ? mel * kLinear : kKnee * std::exp(kStep * (mel - knee));
    }
};

// Triangles between neighbouring points of the mel scale.
std::vector<MelBand> bands_of(const MelOptions& options) {
    const MelScale scale{options.slaney_scale};
    const double low = scale.mel(options.f_min);
    const double step = (scale.mel(options.f_max) - low) / (options.n_mels + 1);
    std::vector<MelBand> bands(static_cast<std::size_t>(options.n_mels));
    for (int m = 0; m < options.n_mels; ++m) {
        const std::array<double, 3> at = {scale.hz(low + step * m), scale.hz(low + step * (m + 1)),
                                          scale.hz(low + step * (m + 2))};
        const double area = options.slaney_norm ? 2 / (at[2] - at[0]) : 1;
        MelBand& band = bands[static_cast<std::size_t>(m)];
        for (int k = 0; k <= options.n_fft / 2; ++k) {
            const double hz = static_cast<double>(k) * options.sample_rate / options.n_fft;
            const double weight = std::min((hz - at[0]) / (at[1] - at[0]), (at[2] - hz) / (at[2] - at[1]));
            if (weight <= 0) {
                continue;
            }
            band.first = band.weights.empty() ? k : band.first;
            band.weights.push_back(static_cast<float>(weight * area));
        }
    }
    return bands;
}

// A periodic Hann window in the middle of n_fft samples, halved.
std::vector<float> window_of(const MelOptions& options) {
    std::vector<float> window(static_cast<std::size_t>(options.n_fft));
    const int begin = (options.n_fft - options.win_length) / 2;
    for (int i = 0; i < options.win_length; ++i) {
        const double angle = 2 * std::numbers::pi * i / options.win_length;
        window[static_cast<std::size_t>(begin + i)] = static_cast<float>((0.5 - 0.5 * std::cos(angle)) / 2);
    }
    return window;
}

void mask_values(PlanesView image, int begin, int width, bool columns, float value) {
    for (int c = 0; c < image.channels; ++c) {
        const Plane plane = image.plane(c);
        if (columns) {
            for (int y = 0; y < plane.height; ++y) {
                std::fill_n(plane.row(y) + begin, width, value);
            }
        } else {
            for (int y = begin; y < begin + width; ++y) {
                std::fill_n(plane.row(y), plane.width, value);
            }
        }
    }
}

float mean_of(ConstPlanesView image) {
    double sum = 0;
    for (int c = 0; c < image.channels; ++c) {
        for (int y = 0; y < image.height; ++y) {
            const float* row = image.plane(c).row(y);
            for (int x = 0; x < image.width; ++x) {
                sum += static_cast<double>(row[x]);
            }
        }
    }
    return static_cast<float>(sum / (static_cast<double>(image.channels) * image.height * image.width));
}

}  // namespace

const std::vector<MelKernels>& mel_kernels() {
    static const std::vector<MelKernels> sets = [] {
        std::vector<MelKernels> all{{"plain", run_plain, to_db_plain}};
#if defined(__x86_64__)
        const std::vector<MelKernels> wide = x86_mel_kernels();
        all.insert(all.end(), wide.begin(), wide.end());
#endif
        return all;
    }();
    return sets;
}

bool is_fft_size(int n) {
    return n >= 2 && n <= kMostFft && !factors_of(n).empty();
}

MelSpectrogram::MelSpectrogram(const MelOptions& options) : options_(options) {
    MelOptions& all = options_;
    all.win_length = all.win_length == 0 ? all.n_fft : all.win_length;
    all.hop_length = all.hop_length == 0 ? std::max(all.win_length / 2, 1) : all.hop_length;
    all.f_max = all.f_max == 0 ? all.sample_rate / 2.0 : all.f_max;
    const bool fits = is_fft_size(all.n_fft) && all.win_length >= 1 && all.win_length <= all.n_fft &&
                      all.hop_length >= 1 && all.n_mels >= 1 && all.f_min >= 0 && all.f_min < all.f_max &&
                      all.f_max <= all.sample_rate / 2.0 && (all.power == 1 || all.power == 2);
    if (!fits) {
        throw InvalidArgument({.where = "mel_spectrogram",
                               .expected = fmt::format("0 <= f_min < f_max <= sample_rate / 2, 1 <= win_length <= "
                                                       "n_fft <= {}, and n_fft without a prime factor above {}",
                                                       kMostFft, kMostFftFactor),
                               .got = fmt::format("f_min {}, f_max {}, sample_rate {}, win_length {}, n_fft {}",
                                                  all.f_min, all.f_max, all.sample_rate, all.win_length, all.n_fft)});
    }
    plan_ = std::make_unique<const MelPlan>(MelPlan{.n_fft = all.n_fft,
                                                    .hop = all.hop_length,
                                                    .power = all.power,
                                                    .window = window_of(all),
                                                    .stages = stages_of(all.n_fft),
                                                    .bands = bands_of(all)});
}

MelSpectrogram::~MelSpectrogram() = default;

void MelSpectrogram::run(ConstPlanesView sound, PlanesView out, Buffer& scratch) const {
    run_with(mel_kernels().back(), sound, out, scratch);
}

void MelSpectrogram::run_with(const MelKernels& kernels, ConstPlanesView sound, PlanesView out, Buffer& scratch) const {
    const int pad = options_.n_fft / 2;
    if (sound.height != 1 || sound.width <= pad) {
        throw DataError({}, {.where = "mel_spectrogram",
                             .expected = fmt::format("a sound of more than {} samples: half of n_fft", pad),
                             .got = sound.height == 1 ? fmt::format("{} samples", sound.width)
                                                      : fmt::format("{} rows", sound.height)});
    }
    const int count = frames(sound.width);
    scratch.resize(mel_scratch_floats(*plan_, count) * sizeof(float));
    for (int c = 0; c < sound.channels; ++c) {
        const Plane to = out.plane(c);
        kernels.run(*plan_, {.sound = sound.plane(c).row(0),
                             .samples = sound.width,
                             .frames = count,
                             .out = to.row(0),
                             .stride = to.stride,
                             .scratch = reinterpret_cast<float*>(scratch.data())});
    }
}

void amplitude_to_db(const AmplitudeToDb& op, PlanesView image) {
    float largest = -std::numeric_limits<float>::infinity();
    const auto each_row = [&](const auto& change) {
        for (int c = 0; c < image.channels; ++c) {
            for (int y = 0; y < image.height; ++y) {
                change(image.plane(c).row(y));
            }
        }
    };
    each_row([&](float* row) {
        mel_kernels().back().to_db(row, static_cast<std::size_t>(image.width), op.multiplier);
        largest = std::max(largest, *std::max_element(row, row + image.width));
    });
    if (op.top_db > 0) {
        each_row([&](float* row) {
            std::transform(row, row + image.width, row,
                           [low = largest - op.top_db](float value) { return std::max(value, low); });
        });
    }
}

void gain_planes(PlanesView sound, const RandomGain& op, Rng& rng) {
    const float decibels = op.low + (op.high - op.low) * rng.uniform();
    const float factor = std::pow(10.0f, decibels / 20);
    for (int c = 0; c < sound.channels; ++c) {
        for (int y = 0; y < sound.height; ++y) {
            float* row = sound.plane(c).row(y);
            std::transform(row, row + sound.width, row, [factor](float value) { return value * factor; });
        }
    }
}

void spec_augment(PlanesView image, const SpecAugment& op, Rng& rng) {
    const float value = op.zero_masking ? 0 : mean_of(image);
    const auto mask = [&](int param, int size, bool columns) {
        const int most = std::min(param, static_cast<int>(static_cast<float>(size) * op.p));
        const float width = rng.uniform() * static_cast<float>(most);
        const float begin = rng.uniform() * (static_cast<float>(size) - width);
        const int most_begin = size - static_cast<int>(width);
        mask_values(image, std::min(static_cast<int>(begin), most_begin), static_cast<int>(width), columns, value);
    };
    for (int i = 0; i < op.n_time_masks; ++i) {
        mask(op.time_mask_param, image.width, /*columns=*/true);
    }
    for (int i = 0; i < op.n_freq_masks; ++i) {
        mask(op.freq_mask_param, image.height, /*columns=*/false);
    }
}

}  // namespace stoker
