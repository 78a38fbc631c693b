#include "stoker/codecs/video/video.h"

#include <algorithm>
#include <exception>
#include <new>
#include <vector>

#include "stoker/base/error.h"
#include "stoker/base/memory_limit.h"
#include "stoker/codecs/video/ffmpeg_loader.h"
#include "stoker/codecs/video/mp4_index.h"

namespace stoker {
namespace {

[[noreturn]] void refuse(const FfmpegText& error) {
    if (error.out_of_memory) {
        throw std::bad_alloc();
    }
    throw DataError({}, {.where = "video", .expected = "a video that FFmpeg decodes", .got = error.text});
}

struct Taken {
    std::span<const std::int64_t> frames;
    std::span<const std::int64_t> numbers;  // without repetitions
    const std::function<void(ConstImageView)>& take;
    std::exception_ptr error = nullptr;
};

// Exceptions do not pass through the library.
bool take_frame(void* user, std::size_t at, const FfmpegFrame* frame) {
    auto& taken = *static_cast<Taken*>(user);
    try {
        const ConstImageView view{frame->rgb, frame->height, frame->width, 3, std::ptrdiff_t{frame->width} * 3};
        const auto [begin, end] = std::equal_range(taken.frames.begin(), taken.frames.end(), taken.numbers[at]);
        for (auto repeated = begin; repeated != end; ++repeated) {
            taken.take(view);
        }
        return true;
    } catch (...) {
        taken.error = std::current_exception();
        return false;
    }
}

}  // namespace

void VideoFile::Close::operator()(FfmpegVideo* video) const {
    ffmpeg().close(video);
}

VideoFile::VideoFile(std::span<const std::byte> file) {
    require_possible_index({reinterpret_cast<const char*>(file.data()), file.size()});
    FfmpegText error;
    video_.reset(ffmpeg().open(reinterpret_cast<const std::uint8_t*>(file.data()), file.size(), &error));
    if (video_ == nullptr) {
        refuse(error);
    }
}

VideoInfo VideoFile::info() const {
    FfmpegInfo info;
    ffmpeg().info(video_.get(), &info);
    return {.height = info.height,
            .width = info.width,
            .frames = info.frames,
            .seconds = info.seconds,
            .codec = info.codec};
}

void VideoFile::decode(std::span<const std::int64_t> frames, const std::function<void(ConstImageView)>& take) {
    std::vector<std::int64_t> numbers(frames.begin(), frames.end());
    numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
    // Decoders keep up to 16 pictures that others refer to, of up to 16 bits.
    constexpr std::uint64_t kBytesForPixel = 16 * 3 + 6;
    const VideoInfo found = info();
    require_memory(kBytesForPixel * static_cast<std::uint64_t>(found.height) * static_cast<std::uint64_t>(found.width),
                   "a video's pictures");
    Taken taken{.frames = frames, .numbers = numbers, .take = take};
    FfmpegText error;
    if (!ffmpeg().decode(video_.get(), numbers.data(), numbers.size(), take_frame, &taken, &error)) {
        if (taken.error != nullptr) {
            std::rethrow_exception(taken.error);
        }
        refuse(error);
    }
}

}  // namespace stoker
