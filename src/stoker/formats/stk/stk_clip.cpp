// Frames are found by their entry alone, so that a few frames of a mapped video touch little of it.
#include "stoker/formats/stk/stk_clip.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>

#include "stoker/base/error.h"
#include "stoker/formats/image_kind.h"
#include "stoker/formats/stk/stk_layout.h"

namespace stoker {
namespace {

constexpr std::size_t kCount = sizeof(std::uint64_t);

[[noreturn]] void refuse(std::string expected, std::string got) {
    throw DataError({}, {.where = "clip", .expected = std::move(expected), .got = std::move(got)});
}

}  // namespace

std::vector<std::byte> write_stk_clip(std::span<const StkImage> frames) {
    const std::uint64_t count = frames.size();
    if (count < 1 || count > static_cast<std::uint64_t>(kMostStkFrames)) {
        refuse(fmt::format("1 to {} frames", kMostStkFrames), fmt::to_string(count));
    }
    std::uint64_t end = stk_align(kCount + count * sizeof(StkImageEntry));
    std::vector<StkImageEntry> entries;
    for (const StkImage& frame : frames) {
        entries.push_back({.place = {.offset = end, .size = frame.bytes.size()},
                           .codec = static_cast<std::uint16_t>(frame.codec),
                           .flags = frame.original_file ? kStkOriginalFile : std::uint16_t{0},
                           .height = static_cast<std::uint32_t>(frame.height),
                           .width = static_cast<std::uint32_t>(frame.width),
                           .channels = static_cast<std::uint32_t>(frame.channels)});
        end = stk_align(end + frame.bytes.size());
    }
    std::vector<std::byte> payload(end);
    std::memcpy(payload.data(), &count, kCount);
    std::memcpy(payload.data() + kCount, entries.data(), count * sizeof(StkImageEntry));
    for (std::size_t i = 0; i < frames.size(); ++i) {
        std::ranges::copy(frames[i].bytes, payload.data() + entries[i].place.offset);
    }
    return payload;
}

std::int64_t stk_clip_frames(std::span<const std::byte> payload) {
    std::uint64_t count = 0;
    if (payload.size() >= kCount) {
        std::memcpy(&count, payload.data(), kCount);
    }
    if (count < 1 || count > static_cast<std::uint64_t>(kMostStkFrames) ||
        count > (payload.size() - kCount) / sizeof(StkImageEntry)) {
        refuse("a table of frames", fmt::format("{} frames in {} bytes", count, payload.size()));
    }
    return static_cast<std::int64_t>(count);
}

StkImage stk_clip_frame(std::span<const std::byte> payload, std::int64_t number) {
    StkImageEntry entry;
    std::memcpy(&entry, payload.data() + kCount + static_cast<std::size_t>(number) * sizeof entry, sizeof entry);
    const auto [offset, size, hash] = entry.place;
    const auto codec = static_cast<StkCodec>(entry.codec);
    if (offset > payload.size() || size > payload.size() - offset || codec == StkCodec::clip) {
        refuse("a frame within the clip", fmt::format("frame {} with {} bytes at {}", number, size, offset));
    }
    constexpr std::uint32_t kMostSide = 65535;
    const std::uint64_t pixels = std::uint64_t{entry.height} * entry.width * entry.channels;
    const bool sides = entry.height <= kMostSide && entry.width <= kMostSide && entry.channels <= kMaxByteChannels;
    if (codec == StkCodec::raw && (!sides || pixels != size || pixels == 0)) {
        refuse("raw pixels of the frame's size", fmt::format("{} bytes in frame {}", size, number));
    }
    return {.bytes = payload.subspan(offset, size),
            .codec = codec,
            .height = static_cast<int>(entry.height),
            .width = static_cast<int>(entry.width),
            .channels = static_cast<int>(entry.channels),
            .original_file = (entry.flags & kStkOriginalFile) != 0};
}

void set_stk_image(const StkImage& image, FieldValue& value) {
    if (image.codec == StkCodec::npy) {
        set_image_file(image.bytes, value);
        return;
    }
    value.set_raw(image.bytes, image.height, image.width, image.channels);
    value.encoded = image.codec != StkCodec::raw;
}

void set_stk_clip(std::span<const std::byte> payload, FieldValue& value) {
    for (const std::int64_t frame : value.begin_clip(stk_clip_frames(payload))) {
        set_stk_image(stk_clip_frame(payload, frame), value.frames.emplace_back());
    }
}

}  // namespace stoker
