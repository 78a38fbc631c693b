// Names and defaults are torchaudio's.
#include "stoker/pipeline/transforms/sound_ops.h"

#include <algorithm>
#include <fmt/format.h>

#include "stoker/base/error.h"
#include "stoker/pipeline/transforms/op_options.h"

namespace stoker {
namespace {

SoundOp make_mel_spectrogram(OpOptions& options) {
    constexpr double kMostHz = 400000;
    constexpr int kMostBands = 4096;
    constexpr int kMostRate = 768000;
    MelOp op;
    op.options.sample_rate = options.whole("sample_rate", 0, 0, kMostRate);  // checked by set_sample_rate
    op.options.n_fft = options.whole("n_fft", 400, 2, kMostFft);
    if (!is_fft_size(op.options.n_fft)) {
        options.refuse("n_fft",
                       fmt::format("a number without a prime factor above {}, such as 400 or 512", kMostFftFactor));
    }
    op.options.win_length = options.whole("win_length", op.options.n_fft, 1, op.options.n_fft);
    const int half = std::max(op.options.win_length / 2, 1);
    op.options.hop_length = options.whole("hop_length", half, 1, kMostFft);
    op.options.n_mels = options.whole("n_mels", 128, 1, kMostBands);
    op.options.f_min = options.number("f_min", 0, 0, kMostHz);
    op.options.f_max = options.number("f_max", 0, 0, kMostHz);
    if (op.options.f_max != 0 && op.options.f_max <= op.options.f_min) {
        options.refuse("f_max", "a frequency above f_min");
    }
    op.options.power = options.whole("power", 2, 1, 2);
    op.options.slaney_scale = options.choice("mel_scale", {"htk", "slaney"}) == 1;
    op.options.slaney_norm = options.choice("norm", {"none", "slaney"}) == 1;
    return op;
}

SoundOp make_amplitude_to_db(OpOptions& options) {
    const bool magnitudes = options.choice("stype", {"power", "magnitude"}) == 1;
    return AmplitudeToDb{.multiplier = magnitudes ? 20.0f : 10.0f,
                         .top_db = static_cast<float>(options.number("top_db", 0, 0, 1000))};
}

SoundOp make_gain(OpOptions& options) {
    constexpr double kMost = 120;
    const std::vector<double> range = options.numbers("gain_db", {}, 1, 2);
    if (range.empty() || !(range.front() >= -kMost && range.front() <= range.back() && range.back() <= kMost)) {
        options.refuse("gain_db", fmt::format("decibels from {} to {}, or [low, high]", -kMost, kMost));
    }
    return RandomGain{.low = static_cast<float>(range.front()), .high = static_cast<float>(range.back())};
}

SoundOp make_spec_augment(OpOptions& options) {
    constexpr int kMostMasks = 100;
    constexpr int kMostWidth = 1 << 20;
    return SpecAugment{.n_time_masks = options.whole("n_time_masks", std::nullopt, 0, kMostMasks),
                       .time_mask_param = options.whole("time_mask_param", std::nullopt, 0, kMostWidth),
                       .n_freq_masks = options.whole("n_freq_masks", std::nullopt, 0, kMostMasks),
                       .freq_mask_param = options.whole("freq_mask_param", std::nullopt, 0, kMostWidth),
                       .p = options.probability(1),
                       .zero_masking = options.flag("zero_masking", false)};
}

struct Entry {
    const char* name;
    MakeSoundOp make;
};
constexpr Entry kSoundOps[] = {
    {"mel_spectrogram", make_mel_spectrogram},
    {"amplitude_to_db", make_amplitude_to_db},
    {"gain", make_gain},
    {"spec_augment", make_spec_augment},
};

struct Run {
    PlanesView sound;
    Rng& rng;
    SoundScratch& scratch;

    ConstPlanesView operator()(const MelOp& op) const {
        const MelSpectrogram& mel = *op.made;
        const PlanesView out = scratch.spectrogram.reset(sound.channels, mel.options().n_mels, mel.frames(sound.width));
        mel.run(sound, out, scratch.frames);
        return out;
    }
    ConstPlanesView operator()(const AmplitudeToDb& op) const {
        amplitude_to_db(op, sound);
        return sound;
    }
    ConstPlanesView operator()(const RandomGain& op) const {
        gain_planes(sound, op, rng);
        return sound;
    }
    ConstPlanesView operator()(const SpecAugment& op) const {
        spec_augment(sound, op, rng);
        return sound;
    }
};

}  // namespace

bool is_random(const SoundOp& op) {
    return std::holds_alternative<RandomGain>(op) || std::holds_alternative<SpecAugment>(op);
}

void set_sample_rate(SoundOp& op, int sample_rate) {
    auto* const mel = std::get_if<MelOp>(&op);
    if (mel == nullptr) {
        return;
    }
    if (sample_rate == 0) {
        throw InvalidArgument({.where = "mel_spectrogram",
                               .expected = "the rate of the sounds in Hz, data.sample_rate",
                               .got = "none",
                               .hint = "such as data.sample_rate = 16000"});
    }
    const auto require = [&](bool holds, const char* option, const char* expected, const std::string& got) {
        if (!holds) {
            throw InvalidArgument({.where = fmt::format("mel_spectrogram.{}", option),
                                   .expected = fmt::format(fmt::runtime(expected), sample_rate, sample_rate / 2.0),
                                   .got = got});
        }
    };
    require(mel->options.sample_rate == 0 || mel->options.sample_rate == sample_rate, "sample_rate",
            "{} Hz, which is data.sample_rate, or none", fmt::to_string(mel->options.sample_rate));
    require(mel->options.f_max <= sample_rate / 2.0, "f_max", "at most {1} Hz, half of data.sample_rate = {0}",
            fmt::to_string(mel->options.f_max));
    require(mel->options.f_min < sample_rate / 2.0, "f_min", "less than {1} Hz, half of data.sample_rate = {0}",
            fmt::to_string(mel->options.f_min));
    mel->options.sample_rate = sample_rate;
    mel->made = std::make_shared<const MelSpectrogram>(mel->options);
}

MakeSoundOp sound_op_maker(const std::string& name) {
    const auto* const entry = std::ranges::find(kSoundOps, name, &Entry::name);
    return entry == std::end(kSoundOps) ? nullptr : entry->make;
}

std::vector<std::string> sound_op_names() {
    std::vector<std::string> names;
    std::ranges::transform(kSoundOps, std::back_inserter(names), &Entry::name);
    return names;
}

ConstPlanesView run_sound_op(const SoundOp& op, PlanesView sound, Rng rng, SoundScratch& scratch) {
    return std::visit(Run{sound, rng, scratch}, op);
}

}  // namespace stoker
