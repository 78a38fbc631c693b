#include "stoker/codecs/video/sound_track.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <new>
#include <string_view>
#include <vector>

#include "stoker/base/error.h"
#include "stoker/base/memory_limit.h"
#include "stoker/codecs/video/ffmpeg_loader.h"
#include "stoker/codecs/video/mp4_index.h"

namespace stoker {
namespace {

using namespace std::string_view_literals;

constexpr std::string_view kMatroska = "\x1a\x45\xdf\xa3"sv;

[[noreturn]] void refuse(const FfmpegText& error) {
    if (error.out_of_memory) {
        throw std::bad_alloc();
    }
    throw DataError({}, {.where = "audio", .expected = "a sound track that FFmpeg decodes", .got = error.text});
}

std::string_view text_of(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::uint64_t big_endian(std::string_view bytes) {
    std::uint64_t value = 0;
    for (const char byte : bytes) {
        value = value << 8 | static_cast<unsigned char>(byte);
    }
    return value;
}

// The end of the last box of an MP4 or MOV; 0 if that is open. Bytes behind the boxes do not matter.
std::uint64_t end_of_boxes(std::string_view file) {
    constexpr std::string_view kLong[] = {"moov", "moof", "mdat", "free"};
    std::uint64_t at = 0;
    while (at + 16 <= file.size()) {
        const std::uint64_t small = big_endian(file.substr(at, 4));
        const std::uint64_t size = small == 1 ? big_endian(file.substr(at + 8, 8)) : small;
        if (size < 8) {
            return 0;
        }
        if (size > file.size() - at) {
            const bool known = std::ranges::find(kLong, file.substr(at + 4, 4)) != std::end(kLong);
            return !known ? 0 : size > UINT64_MAX - at ? UINT64_MAX : at + size;
        }
        at += size;
    }
    return at;
}

// An EBML number of 1 to 8 bytes without its marker of the length, which `size` gets. 0 if it is open, or not whole.
std::uint64_t ebml_number(std::string_view bytes, std::size_t& size) {
    const auto first = static_cast<unsigned char>(bytes.empty() ? '\0' : bytes[0]);
    size = static_cast<std::size_t>(std::countl_zero(first)) + 1;
    if (first == 0 || size > bytes.size()) {
        return 0;
    }
    const std::uint64_t mask = (std::uint64_t{1} << (7 * size)) - 1;
    const std::uint64_t value = big_endian(bytes.substr(0, size)) & mask;
    return value == mask ? 0 : value;
}

// The end of the segment of a Matroska or WebM file; 0 if that is open.
std::uint64_t end_of_segment(std::string_view file) {
    constexpr std::string_view kSegment = "\x18\x53\x80\x67"sv;
    std::size_t bytes = 0;
    const std::uint64_t header = ebml_number(file.substr(kMatroska.size()), bytes);
    const std::uint64_t at = kMatroska.size() + bytes + header;
    if (header == 0 || at >= file.size() || !file.substr(at).starts_with(kSegment)) {
        return 0;
    }
    const std::uint64_t segment = ebml_number(file.substr(at + kSegment.size()), bytes);
    return segment == 0 ? 0 : at + kSegment.size() + bytes + segment;
}

// FFmpeg reads a file that is cut up to its end. (AVI: audio.cpp)
void require_whole(std::string_view file) {
    const std::uint64_t end = file.starts_with(kMatroska) ? end_of_segment(file)
                              : file.starts_with("RIFF")  ? 0
                                                          : end_of_boxes(file);
    if (end > file.size()) {
        throw DataError({}, {.where = "audio",
                             .expected = fmt::format("{} bytes, as the file's header says", end),
                             .got = fmt::to_string(file.size())});
    }
}

}  // namespace

bool may_have_sound_track(std::span<const std::byte> bytes) {
    const std::string_view text = text_of(bytes).substr(0, 12);
    if (text.size() < 12) {
        return false;
    }
    const std::string_view box = text.substr(4, 4);
    return box == "ftyp" || box == "moov" || box == "mdat" || box == "wide" || text.starts_with(kMatroska) ||
           (text.starts_with("RIFF") && text.ends_with("AVI "));
}

void SoundTrack::Close::operator()(FfmpegSound* sound) const {
    ffmpeg().close_sound(sound);
}

SoundTrack::SoundTrack(std::span<const std::byte> file) {
    constexpr std::size_t kUnchecked = std::size_t{64} << 20;
    require_whole(text_of(file));
    require_possible_index(text_of(file));
    if (file.size() > kUnchecked) {
        require_memory(file.size(), "a sound track");
    }
    FfmpegText error;
    sound_.reset(ffmpeg().open_sound(reinterpret_cast<const std::uint8_t*>(file.data()), file.size(), &error));
    if (sound_ == nullptr) {
        refuse(error);
    }
}

SoundTrackInfo SoundTrack::info() const {
    FfmpegSoundInfo info;
    ffmpeg().sound_info(sound_.get(), &info);
    return {.rate = info.rate, .channels = info.channels, .samples = info.samples, .codec = info.codec};
}

void SoundTrack::read(std::int64_t begin, PlanesView out) {
    std::vector<float*> planes(static_cast<std::size_t>(out.channels));
    for (int c = 0; c < out.channels; ++c) {
        planes[static_cast<std::size_t>(c)] = out.plane(c).row(0);
    }
    FfmpegText error;
    if (!ffmpeg().read_sound(sound_.get(), begin, out.width, planes.data(), &error)) {
        refuse(error);
    }
}

}  // namespace stoker
