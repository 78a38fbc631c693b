// What libstoker_ffmpeg.so exports: plain types, since it is opened at run time and may be built apart. FFmpeg's
// headers are included nowhere else.
#pragma once

#include <cstddef>
#include <cstdint>

namespace stoker {

struct FfmpegVideo;  // an open file

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

struct FfmpegText {
    char text[256] = "";
    bool out_of_memory = false;
};

struct FfmpegApi {
    std::uint32_t version = 1;  // of this struct
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
};

inline constexpr std::uint32_t kFfmpegApiVersion = 1;
inline constexpr const char* kFfmpegApi = "stoker_ffmpeg_api";  // const FfmpegApi* stoker_ffmpeg_api()

}  // namespace stoker
