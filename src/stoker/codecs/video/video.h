// Frames of MP4, MOV, Matroska, WebM and AVI files, through libstoker_ffmpeg.so, which is opened at the first use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "stoker/base/image.h"

namespace stoker {

struct VideoInfo {
    int height = 0;  // as shown: rotated as the file says
    int width = 0;
    std::int64_t frames = 0;
    double seconds = 0;  // from the first frame to the last
    std::string codec;   // "h264"
};

// The first video of a file in memory, for use by one thread.
class VideoFile {
  public:
    // `file` outlives it. Throws IoError if FFmpeg's libraries are missing, and DataError for a file without a
    // video, or of a kind that they do not decode.
    explicit VideoFile(std::span<const std::byte> file);

    VideoInfo info() const;

    // Calls `take` with each frame as RGB, in the order of `frames`: numbers in the order in which they are shown,
    // sorted; one that follows itself is taken again. Throws DataError, with the frame's number, for a damaged one.
    void decode(std::span<const std::int64_t> frames, const std::function<void(ConstImageView)>& take);

  private:
    struct Close {
        void operator()(struct FfmpegVideo* video) const;
    };

    std::unique_ptr<struct FfmpegVideo, Close> video_;
};

}  // namespace stoker
