// What libstoker_ffmpeg.so exports: plain types, since it is opened at run time and may be built apart. FFmpeg's
// headers are included nowhere else.
#pragma once

#include <cstddef>
#include <cstdint>

namespace stoker {

struct FfmpegVideo;  // an open file
struct FfmpegSound;  // an open file's sound

struct FfmpegInfo {
    int width = 0;  // as shown, after a rotation that the file asks for
    int height = 0;
    std::int64_t frames = 0;
    double seconds = 0;
    const char* codec = "";  // "h264"
};

struct FfmpegFrame {
    const std::uint8_t* rgb = nullptr;  // (height, width, 3) without padding
    int width = 0;
    int height = 0;
};

struct FfmpegSoundInfo {
    int rate = 0;  // samples of one channel a second
    int channels = 0;
    std::int64_t samples = 0;  // of one channel
    const char* codec = "";    // "aac"
};

struct FfmpegText {
    char text[256] = "";
    bool out_of_memory = false;
};

struct FfmpegApi {
    std::uint32_t version = 2;  // of this struct
    // The file's first video, in memory that stays valid until `close`. Null, with a reason in `error`, for another or
    // damaged file.
    FfmpegVideo* (*open)(const std::uint8_t* bytes, std::size_t size, FfmpegText* error) = nullptr;
    void (*info)(const FfmpegVideo* video, FfmpegInfo* info) = nullptr;
    // Calls `take` for each of the frames, which are sorted and different. False, with a reason, if one is damaged, or
    // if `take` returns false.
    bool (*decode)(FfmpegVideo* video, const std::int64_t* frames, std::size_t count,
                   bool (*take)(void* user, std::size_t at, const FfmpegFrame* frame), void* user,
                   FfmpegText* error) = nullptr;
    void (*close)(FfmpegVideo* video) = nullptr;
    // The file's first sound track, in memory that stays valid until `close_sound`. Null, with a reason in `error`, for
    // a file without one, or a damaged file.
    FfmpegSound* (*open_sound)(const std::uint8_t* bytes, std::size_t size, FfmpegText* error) = nullptr;
    void (*sound_info)(const FfmpegSound* sound, FfmpegSoundInfo* info) = nullptr;
    // The samples from `begin` on, which the track must have: out[c] gets `count` of channel c. False, with a reason,
    // if one is damaged.
    bool (*read_sound)(FfmpegSound* sound, std::int64_t begin, std::int64_t count, float* const* out,
                       FfmpegText* error) = nullptr;
    void (*close_sound)(FfmpegSound* sound) = nullptr;
};

inline constexpr std::uint32_t kFfmpegApiVersion = 2;
inline constexpr const char* kFfmpegApi = "stoker_ffmpeg_api";  // const FfmpegApi* stoker_ffmpeg_api()

}  // namespace stoker
