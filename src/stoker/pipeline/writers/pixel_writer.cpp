#include "stoker/pipeline/sample_writer.h"

namespace stoker {
namespace {

class PixelWriter : public SampleWriter {
  protected:
    void use_size_of(const SampleTask& task) const {
        task.scratch.transform.batch_size = task.scratch.fields.batch_size = fields_.size_in(task.place.batch);
    }

  public:
    PixelWriter(const LoaderFields& fields, const CacheOptions& cache)
        : SampleWriter(fields, cache, [&](int view) { return fields.view_spec(view); }) {}

    void write(const SampleTask& task) const override {
        SampleScratch& scratch = task.scratch;
        const bool cached = read(task);
        use_size_of(task);
        scratch.drawn = true;
        for (int view = 0; view < fields_.views(); ++view) {
            transform_.run(scratch.sample, key_of_view(task.key, view), scratch.transform,
                           fields_.image(task.place.batch).at(task.place.bytes(fields_.view_at(view))), task.clock);
        }
        scratch.image = scratch.transform.input;
        fields_.write(task, OpRange::all);
        if (!cached) {
            keep(task);
        }
    }
};

// The same from a cache of pixels that are prepared up to the first random op.
class CachedWriter final : public PixelWriter {
  public:
    using PixelWriter::PixelWriter;

    void write(const SampleTask& task) const override {
        SampleScratch& scratch = task.scratch;
        if (!read(task)) {
            prepare(task);
            keep(task);
        }
        use_size_of(task);
        scratch.drawn = true;
        for (int view = 0; view < fields_.views(); ++view) {
            transform_.run(raw_pixels(scratch.sample), key_of_view(task.key, view), scratch.transform,
                           fields_.image(task.place.batch).at(task.place.bytes(fields_.view_at(view))));
        }
        scratch.image = scratch.transform.input;
        fields_.write(task, OpRange::remaining);
    }

  private:
    // Replaces the sample's image, masks and boxes by what the cache keeps.
    void prepare(const SampleTask& task) const {
        SampleScratch& scratch = task.scratch;
        if (fields_.views() > 0) {
            const ConstImageView image = transform_.prepare(scratch.sample, scratch.transform, task.clock);
            // The ops of the first view write to the transform's scratch.
            if (fields_.views() > 1 || image.stride != static_cast<std::ptrdiff_t>(image.row_bytes())) {
                set_copy(image, scratch.sample, scratch.packed);
            } else {
                const std::size_t bytes = image.row_bytes() * static_cast<std::size_t>(image.height);
                scratch.sample.set_raw({reinterpret_cast<const std::byte*>(image.data), bytes}, image.height,
                                       image.width, image.channels);
            }
            scratch.image = scratch.transform.input;
        }
        fields_.prepare(task);
    }
};

}  // namespace

std::unique_ptr<SampleWriter> make_pixel_writer(const LoaderFields& fields, const PixelImages& images) {
    if (images.cache.bytes > 0 && !images.cache_encoded && !fields.have_planes() && !fields.have_clips()) {
        return std::make_unique<CachedWriter>(fields, images.cache);
    }
    return std::make_unique<PixelWriter>(fields, images.cache);
}

}  // namespace stoker
