// Arbitrary bytes as a video: refused with DataError, or frames of one size come in the order that was asked for.
#include <array>
#include <new>

#include "fuzz/codecs/decode.h"
#include "stoker/base/error.h"
#include "stoker/base/memory_limit.h"
#include "stoker/codecs/video/video.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace stoker;
    try {
        VideoFile video(fuzz::as_input(data, size));
        const VideoInfo info = video.info();
        fuzz::require(info.frames > 0);
        if (std::int64_t{info.height} * info.width > fuzz::kLargest) {
            return 0;
        }
        const std::array frames = {info.frames / 3, info.frames / 2, info.frames - 1};
        std::size_t taken = 0;
        video.decode(frames, [&](ConstImageView frame) {
            fuzz::require(frame.height > 0 && frame.width > 0 && frame.channels == 3);
            ++taken;
        });
        fuzz::require(taken == frames.size());
    } catch (const DataError&) {
    } catch (const MemoryError&) {
    } catch (const std::bad_alloc&) {
    } catch (const IoError&) {  // FFmpeg is not installed
    }
    return 0;
}
