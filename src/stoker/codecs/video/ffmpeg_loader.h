// Opens libstoker_ffmpeg.so at the first use, so that nothing else needs FFmpeg.
#pragma once

#include "stoker/codecs/video/ffmpeg_api.h"

namespace stoker {

// Throws IoError if FFmpeg's libraries are missing.
const FfmpegApi& ffmpeg();

}  // namespace stoker
