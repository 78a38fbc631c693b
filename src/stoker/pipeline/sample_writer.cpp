#include "stoker/pipeline/sample_writer.h"

#include <algorithm>
#include <iterator>

#include "stoker/base/error.h"
#include "stoker/pipeline/read_sample.h"

namespace stoker {

void SampleWriter::clear(const ItemPlace& place) const {
    for (int view = 0; view < fields_.views(); ++view) {
        std::ranges::fill(place.bytes(fields_.view_at(view)), std::byte{0});
    }
}

void SampleWriter::prefetch(std::span<const std::int64_t> indices) const {
    std::vector<std::int64_t> missing;
    std::ranges::copy_if(indices, std::back_inserter(missing),
                         [&](std::int64_t index) { return cache_ == nullptr || !cache_->holds(index); });
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
    const bool cached = cache_ != nullptr && cache_->get(task.index, sample);
    if (!cached) {
        read_sample(fields_.dataset(), task.index, sample);
    }
    task.clock.lap(Stage::read);
    fields_.check(sample);
    return cached;
}

void SampleWriter::keep(const SampleTask& task) const {
    if (cache_ != nullptr) {
        cache_->put(task.index, task.scratch.sample);
    }
}

std::unique_ptr<SampleWriter> make_writer(const LoaderFields& fields) {
    const ImageOptions& images = fields.options().images;
    if (const auto* const indexed = std::get_if<IndexedImages>(&images)) {
        return make_indexed_writer(fields, *indexed);
    }
    if (const auto* const packed = std::get_if<PackedImages>(&images)) {
        const bool too_wide = fields.image().width > kAssembleWidth;
        return fields.have_planes() || (packed->shared && too_wide) ? make_pixel_writer(fields, packed->as_bytes())
                                                                    : make_packed_writer(fields, *packed);
    }
    return make_pixel_writer(fields, std::get<PixelImages>(images));
}

}  // namespace stoker
