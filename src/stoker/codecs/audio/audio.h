// Sounds: WAV, FLAC, Ogg (Vorbis, Opus), MP3 and AIFF through libsndfile, those of videos and M4A through FFmpeg,
// resampling through libsoxr. The libraries are opened at the first use, so that nothing else needs them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "stoker/base/planes.h"

namespace stoker {

// Sounds with more samples of all channels than this are refused before any memory is allocated.
inline constexpr std::int64_t kMostSoundSamples = std::int64_t{1} << 28;

struct AudioInfo {
    int rate = 0;  // samples of one channel a second
    int channels = 0;
    std::int64_t samples = 0;  // of one channel
    std::string codec;         // "flac", "wav", ...; "aac" of a video
};

// A file in memory, for use by one thread.
class AudioFile {
  public:
    // `file` outlives it. Throws IoError if the library is missing, and DataError for a damaged file, or of a kind that
    // the library does not read.
    explicit AudioFile(std::span<const std::byte> file);
    ~AudioFile();

    const AudioInfo& info() const { return info_; }

    // The samples from `begin` on, as many as `out` (C, 1, samples) has; from -1 to 1 unless the file has floats. They
    // must be in the file. Throws DataError, with the second, for a damaged one.
    void read(std::int64_t begin, PlanesView out);

  private:
    struct State;

    std::unique_ptr<State> state_;
    AudioInfo info_;
};

// The number of samples after resampling, as librosa and torchaudio have it: rounded up.
std::int64_t resampled_count(std::int64_t samples, int from, int to);

// Resamples with soxr's recipe "high quality", the default of soxr and librosa. `out` gets as many samples as it has
// room for, and zeros behind the sound. Throws IoError if libsoxr is missing.
void resample(std::span<const float> sound, int from, int to, std::span<float> out);

}  // namespace stoker
