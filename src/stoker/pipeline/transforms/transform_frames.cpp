// Clips: each frame goes through the ops as an image does, with the same random numbers, as torchvision's transforms do
// with tv_tensors.Video.
#include <fmt/format.h>

#include "stoker/base/error.h"
#include "stoker/pipeline/transforms/transform.h"

namespace stoker {

Shape ImageSlot::shape() const {
    return frames > 0 ? Shape{frames, channels, height, width} : Shape{channels, height, width};
}

ImageSlot ImageSlot::frame(int number) const {
    ImageSlot one = *this;
    one.frames = 0;
    const std::size_t bytes = static_cast<std::size_t>(element_count(one.shape())) * item_size(pixels.dtype);
    one.pixels.data = pixels.data + static_cast<std::size_t>(number) * bytes;
    return one;
}

const FieldValue& first_image(const FieldValue& value) {
    return value.frames.empty() ? value : value.frames.front();
}

void require_one_size(ImageSize frame, std::optional<ImageSize>& first) {
    if (first.value_or(frame) != frame) {
        throw DataError(
            {}, {.where = "clip",
                 .expected = fmt::format("frames of {} x {} pixels, as the first one", first->width, first->height),
                 .got = fmt::format("{} x {}", frame.width, frame.height)});
    }
    first = frame;
}

void for_frames(const FieldValue& value, const ImageSlot& slot,
                const std::function<void(const FieldValue& image, const ImageSlot& slot)>& run) {
    if (slot.frames > 0 && value.frames.empty()) {
        throw DataError({}, {.where = "clip", .expected = "a clip or a video", .got = "an image, or other bytes"});
    }
    if (slot.frames != std::ssize(value.frames)) {
        const auto count = [](std::int64_t frames) {
            return frames > 0 ? fmt::format("{} frames", frames) : "an image";
        };
        throw SizeMismatch({}, {.where = "clip",
                                .expected = fmt::format("{}, as of sample 0", count(slot.frames)),
                                .got = count(std::ssize(value.frames)),
                                .hint = "set data.frames to the number of frames to read of each clip"});
    }
    if (slot.frames == 0) {
        run(value, slot);
    }
    for (int i = 0; i < slot.frames; ++i) {
        const auto named = [&](ErrorInfo info) {
            info.got += fmt::format(" (frame {} of the {} that are read)", i, slot.frames);
            return info;
        };
        try {
            run(value.frames[static_cast<std::size_t>(i)], slot.frame(i));
        } catch (const SizeMismatch& error) {
            if (i > 0) {  // the first fits, so this clip is bad
                throw DataError(error.place(), named(error.info()));
            }
            throw SizeMismatch(error.place(), named(error.info()));
        } catch (const DataError& error) {
            throw DataError(error.place(), named(error.info()));
        }
    }
}

void Transform::run_clip(const FieldValue& clip, const RngKey& key, TransformScratch& scratch, const ImageSlot& slot,
                         StageClock& clock) const {
    if (slot.planes && normalize_.by != NormalizeBy::mean_std) {
        run_clip_of_own_range(clip, key, scratch, slot, clock);
        return;
    }
    std::optional<ImageSize> first;
    for_frames(clip, slot, [&](const FieldValue& image, const ImageSlot& place) {
        run(image, key, scratch, place, clock);
        require_one_size(scratch.input, first);
    });
}

}  // namespace stoker
