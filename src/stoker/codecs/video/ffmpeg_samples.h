// Private to libstoker_ffmpeg.so: samples of a decoded frame as floats, with the scales of FFmpeg's libswresample.
#pragma once

extern "C" {
#include <libavutil/frame.h>
}

#include <cstdint>

namespace stoker::libav {

// The samples `from` to `to` of all channels; out[c] + at gets the first of channel c. False for a format of samples
// that is not known.
bool copy_samples(const AVFrame& frame, std::int64_t from, std::int64_t to, float* const* out, std::int64_t at);

}  // namespace stoker::libav
