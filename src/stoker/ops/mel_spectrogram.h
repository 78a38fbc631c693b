// Spectrograms on the mel scale: sound as an image of (bands, frames). Results are those of torchaudio's
// MelSpectrogram, AmplitudeToDB and SpecAugment for float32.
#pragma once

#include <memory>
#include <vector>

#include "stoker/base/buffer.h"
#include "stoker/base/planes.h"
#include "stoker/base/rng.h"

namespace stoker {

// torchaudio's names and defaults. Frames are centred, and the sound is reflected at both ends.
struct MelOptions {
    int sample_rate = 16000;  // Hz
    int n_fft = 400;     // samples of a Fourier transform: 2 to kMostFft, without a prime factor above kMostFftFactor
    int win_length = 0;  // of the periodic Hann window, in its middle; 0: n_fft
    int hop_length = 0;  // samples from frame to frame; 0: half of win_length
    int n_mels = 128;
    double f_min = 0;           // Hz
    double f_max = 0;           // 0: half of sample_rate
    int power = 2;              // of the magnitudes: 1 or 2
    bool slaney_scale = false;  // librosa's mel scale, linear below 1000 Hz; false: HTK's 2595 log10(1 + f / 700)
    bool slaney_norm = false;   // each band's weights are divided by its width in Hz
};

inline constexpr int kMostFft = 1 << 15;
inline constexpr int kMostFftFactor = 127;

// True if mel_spectrogram has Fourier transforms of n samples.
bool is_fft_size(int n);

class MelSpectrogram {
  public:
    // Throws InvalidArgument for options out of range.
    explicit MelSpectrogram(const MelOptions& options);
    ~MelSpectrogram();

    const MelOptions& options() const { return options_; }
    int frames(int samples) const { return 1 + (samples - options_.n_fft % 2) / options_.hop_length; }

    // (C, 1, samples) to (C, n_mels, frames(samples)). Throws DataError for sounds of other shapes, and for those that
    // are not longer than half of n_fft.
    void run(ConstPlanesView sound, PlanesView out, Buffer& scratch) const;
    void run_with(const struct MelKernels& kernels, ConstPlanesView sound, PlanesView out, Buffer& scratch) const;

  private:
    MelOptions options_;
    std::unique_ptr<const struct MelPlan> plan_;
};

// multiplier * log10(max(value, 1e-10)), and at least `top_db` below the largest value of all planes unless it is 0.
// The multiplier is 10 for powers and 20 for magnitudes.
struct AmplitudeToDb {
    float multiplier = 10;
    float top_db = 0;
};
void amplitude_to_db(const AmplitudeToDb& op, PlanesView image);

// Multiplies the sound by a gain in decibels, evenly drawn from [low, high].
struct RandomGain {
    float low = 0;
    float high = 0;
};
void gain_planes(PlanesView sound, const RandomGain& op, Rng& rng);

// Masks columns, then rows, of a spectrogram (Park et al. 2019). A width is evenly drawn from 0 to below the parameter,
// and its place from all that leave room. All channels have the same masks.
struct SpecAugment {
    int n_time_masks = 2;
    int time_mask_param = 0;  // frames; a mask is shorter
    int n_freq_masks = 2;
    int freq_mask_param = 0;    // bands
    float p = 1;                // a parameter is at most this share of all frames, or of all bands
    bool zero_masking = false;  // masks hold 0; false: the mean of the spectrogram
};
void spec_augment(PlanesView image, const SpecAugment& op, Rng& rng);

}  // namespace stoker
