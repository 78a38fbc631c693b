// The sound of MP4, M4A, MOV, Matroska, WebM and AVI files, through libstoker_ffmpeg.so, which is opened at the first
// use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "stoker/base/planes.h"

namespace stoker {

// True for bytes that begin as such a file: is_video of formats/image_kind.h, and M4A.
bool may_have_sound_track(std::span<const std::byte> bytes);

struct SoundTrackInfo {
    int rate = 0;  // samples of one channel a second
    int channels = 0;
    std::int64_t samples = 0;  // of one channel
    std::string codec;         // "aac"
};

// The first sound track of a file in memory, for use by one thread.
class SoundTrack {
  public:
    // `file` is not used later. Throws IoError if FFmpeg's libraries are missing, and DataError for a file that is cut,
    // or without a sound that they decode.
    explicit SoundTrack(std::span<const std::byte> file);

    SoundTrackInfo info() const;

    // The samples from `begin` on, as many as `out` (C, 1, samples) has, as `ffmpeg -i FILE -f f32le -` writes them.
    // They must be in the track. Throws DataError, with the second, for a damaged one.
    void read(std::int64_t begin, PlanesView out);

  private:
    struct Close {
        void operator()(struct FfmpegSound* sound) const;
    };

    std::unique_ptr<struct FfmpegSound, Close> sound_;
};

}  // namespace stoker
