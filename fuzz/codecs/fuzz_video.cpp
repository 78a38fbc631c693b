// Arbitrary bytes as a video: refused with DataError, or frames of one size come in the order that was asked for. As a
// sound: refused, or any part of it is read, or is damaged.
#include <algorithm>
#include <array>
#include <new>

#include "fuzz/codecs/decode.h"
#include "stoker/base/error.h"
#include "stoker/base/memory_limit.h"
#include "stoker/codecs/video/sound_track.h"
#include "stoker/codecs/video/video.h"

namespace stoker {
namespace {

void read_frames(std::span<const std::byte> file) {
    VideoFile video(file);
    const VideoInfo info = video.info();
    fuzz::require(info.frames > 0);
    if (std::int64_t{info.height} * info.width > fuzz::kLargest) {
        return;
    }
    const std::array frames = {info.frames / 3, info.frames / 2, info.frames - 1};
    std::size_t taken = 0;
    video.decode(frames, [&](ConstImageView frame) {
        fuzz::require(frame.height > 0 && frame.width > 0 && frame.channels == 3);
        ++taken;
    });
    fuzz::require(taken == frames.size());
}

void read_sound(std::span<const std::byte> file) {
    SoundTrack track(file);
    const SoundTrackInfo info = track.info();
    fuzz::require(info.rate > 0 && info.channels > 0 && info.samples > 0);
    const std::int64_t count = std::min<std::int64_t>(info.samples, 20000);
    if (info.channels > 64) {
        return;
    }
    Planes sound;
    for (const std::int64_t begin : {info.samples - count, std::int64_t{0}}) {
        track.read(begin, sound.reset(info.channels, 1, static_cast<int>(count)));
    }
}

template <typename Read>
void read_or_refuse(std::span<const std::byte> file, Read read) {
    try {
        read(file);
    } catch (const DataError&) {
    } catch (const MemoryError&) {
    } catch (const std::bad_alloc&) {
    } catch (const IoError&) {  // FFmpeg is not installed
    }
}

}  // namespace
}  // namespace stoker

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace stoker;
    read_or_refuse(fuzz::as_input(data, size), read_frames);
    read_or_refuse(fuzz::as_input(data, size), read_sound);
    return 0;
}
