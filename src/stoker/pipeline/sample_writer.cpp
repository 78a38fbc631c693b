#include "stoker/pipeline/sample_writer.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/formats/image_kind.h"
#include "stoker/pipeline/read_sample.h"

namespace stoker {
namespace {

// Refers to an image that is stored elsewhere.
FieldValue view_of(const FieldValue& image) {
    FieldValue view;
    view.set_raw(image.bytes, image.height, image.width, image.channels);
    view.encoded = image.encoded;
    view.planes = image.planes;
    view.dtype = image.dtype;
    view.page = image.page;
    return view;
}

template <typename Change>
void for_clips(SampleScratch& scratch, Change change) {
    Sample& sample = scratch.sample;
    scratch.stored_frames.resize(sample.fields.size() + 1);
    change(sample.frames, scratch.stored_frames.back());
    for (std::size_t i = 0; i < sample.fields.size(); ++i) {
        change(sample.fields[i].frames, scratch.stored_frames[i]);
    }
}

// The sample's clips get views of their wanted frames.
void choose_frames(SampleScratch& scratch, const FrameWindow& wanted) {
    for_clips(scratch, [&](std::vector<FieldValue>& frames, std::vector<FieldValue>& stored) {
        stored = std::exchange(frames, {});
        for (const std::int64_t frame : stored.empty() ? std::vector<std::int64_t>() : wanted.of(std::ssize(stored))) {
            frames.push_back(view_of(stored[static_cast<std::size_t>(frame)]));
        }
    });
}

void restore_frames(SampleScratch& scratch) {
    for_clips(scratch, [](std::vector<FieldValue>& frames, std::vector<FieldValue>& stored) { frames.swap(stored); });
}

}  // namespace

void SampleWriter::clear(const ItemPlace& place) const {
    for (int view = 0; view < fields_.views(); ++view) {
        std::ranges::fill(place.bytes(fields_.view_at(view)), std::byte{0});
    }
}

void SampleWriter::prefetch(std::span<const std::int64_t> indices) const {
    std::vector<std::int64_t> missing;
    std::ranges::copy_if(indices, std::back_inserter(missing),
                         [&](std::int64_t index) { return cache_ == nullptr || !cache_->holds(cached_index(index)); });
    if (missing.empty()) {
        return;
    }
    try {
        fields_.dataset().prefetch(missing);
    } catch (const Error&) {  // a hint: an error of a sample shows when it is read
    }
}

bool SampleWriter::read(const SampleTask& task) const {
    Sample& sample = task.scratch.sample;
    const bool cached = cache_ != nullptr && cache_->get(cached_index(task.index), sample);
    const FrameWindow wanted = fields_.frames_of(task.index, task.key);
    const bool whole = cached || (cache_ != nullptr && !cache_->full());  // a cache holds all frames
    if (!cached) {
        read_sample(fields_.dataset(), task.index, sample, whole ? FrameWindow() : wanted);
    }
    task.clock.lap(Stage::read);
    task.scratch.whole = whole;
    if (whole) {
        choose_frames(task.scratch, wanted);
    }
    if (task.scratch.decode_recording(wanted, transform_.options().channels)) {
        task.clock.lap(Stage::pixels);
    }
    if (wanted.sample_rate > 0 && task.scratch.sound.empty()) {
        throw DataError({}, {.where = "audio", .expected = "a sound", .got = describe_bytes(sample.bytes)});
    }
    fields_.check(sample);
    return cached;
}

void SampleWriter::keep(const SampleTask& task) const {
    SampleScratch& scratch = task.scratch;
    const bool clip = !scratch.sample.frames.empty();
    if (cache_ != nullptr && (scratch.whole || !clip)) {
        if (scratch.whole) {
            restore_frames(scratch);
        }
        if (!scratch.sound.empty()) {
            scratch.sample.set_encoded_image(scratch.sound);
        }
        cache_->put(cached_index(task.index), scratch.sample);
    }
}

std::unique_ptr<SampleWriter> make_writer(const LoaderFields& fields) {
    const ImageOptions& images = fields.options().images;
    if (const auto* const indexed = std::get_if<IndexedImages>(&images)) {
        return make_indexed_writer(fields, *indexed);
    }
    if (const auto* const packed = std::get_if<PackedImages>(&images)) {
        const bool too_wide = fields.image().width > kAssembleWidth;
        return fields.have_planes() || fields.have_clips() || fields.have_own_sizes() || (packed->shared && too_wide)
                   ? make_pixel_writer(fields, packed->as_bytes())
                   : make_packed_writer(fields, *packed);
    }
    return make_pixel_writer(fields, std::get<PixelImages>(images));
}

}  // namespace stoker
