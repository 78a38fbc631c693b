#include "stoker/codecs/video/ffmpeg_samples.h"

extern "C" {
#include <libavutil/samplefmt.h>
}

namespace stoker::libav {
namespace {

float to_float(std::uint8_t value) {
    return static_cast<float>(value - 128) / 128;
}
float to_float(std::int16_t value) {
    return static_cast<float>(value) / 32768;
}
float to_float(std::int32_t value) {
    return static_cast<float>(value) / 2147483648.0f;
}
float to_float(std::int64_t value) {
    return static_cast<float>(value) / 9223372036854775808.0f;
}
float to_float(float value) {
    return value;
}
float to_float(double value) {
    return static_cast<float>(value);
}

template <typename Value>
bool copy(const AVFrame& frame, std::int64_t from, std::int64_t to, float* const* out, std::int64_t at) {
    const int channels = frame.ch_layout.nb_channels;
    const bool planar = av_sample_fmt_is_planar(static_cast<AVSampleFormat>(frame.format)) != 0;
    const std::ptrdiff_t step = planar ? 1 : channels;
    for (int c = 0; c < channels; ++c) {
        const auto* const plane =
            reinterpret_cast<const Value*>(frame.extended_data[planar ? c : 0]) + (planar ? 0 : c);
        float* const to_plane = out[c] + at;
        for (std::int64_t i = from; i < to; ++i) {
            to_plane[i - from] = to_float(plane[i * step]);
        }
    }
    return true;
}

}  // namespace

bool copy_samples(const AVFrame& frame, std::int64_t from, std::int64_t to, float* const* out, std::int64_t at) {
    switch (av_get_packed_sample_fmt(static_cast<AVSampleFormat>(frame.format))) {
        case AV_SAMPLE_FMT_U8:
            return copy<std::uint8_t>(frame, from, to, out, at);
        case AV_SAMPLE_FMT_S16:
            return copy<std::int16_t>(frame, from, to, out, at);
        case AV_SAMPLE_FMT_S32:
            return copy<std::int32_t>(frame, from, to, out, at);
        case AV_SAMPLE_FMT_S64:
            return copy<std::int64_t>(frame, from, to, out, at);
        case AV_SAMPLE_FMT_FLT:
            return copy<float>(frame, from, to, out, at);
        case AV_SAMPLE_FMT_DBL:
            return copy<double>(frame, from, to, out, at);
        default:
            return false;
    }
}

}  // namespace stoker::libav
