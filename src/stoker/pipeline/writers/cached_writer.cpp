#include "stoker/pipeline/writers/writers.h"

namespace stoker {
namespace {

// Makes the prepared image the sample's raw pixels; copies it to `packed` if its rows are not contiguous, or if `copy`.
void set_pixels(ConstImageView image, bool copy, Sample& sample, Buffer& packed) {
    const std::size_t row = image.row_bytes();
    const std::size_t bytes = row * static_cast<std::size_t>(image.height);
    const auto* data = reinterpret_cast<const std::byte*>(image.data);
    if (copy || image.stride != static_cast<std::ptrdiff_t>(row)) {
        packed.resize(bytes);
        copy_pixels(image, {reinterpret_cast<std::uint8_t*>(packed.data()), image.height, image.width, image.channels,
                            static_cast<std::ptrdiff_t>(row)});
        data = packed.data();
    }
    sample.set_raw({data, bytes}, image.height, image.width, image.channels);
}

class CachedWriter final : public SampleWriter {
  public:
    CachedWriter(const WriterSetup& setup, const CacheOptions& cache)
        : SampleWriter(setup, [&](int view) { return setup.fields.view_spec(view); }),
          reader_(setup.dataset, cache),
          image_(setup.fields.image(setup.capacity)) {}

    void write(const SampleTask& task) override {
        SampleScratch& scratch = task.scratch;
        const bool kept = reader_.read(task.index, scratch.sample);
        task.clock.lap(Stage::read);
        fields_.check(scratch.sample);
        if (!kept) {
            prepare(task);
            reader_.keep(task.index, scratch.sample);
        }
        scratch.drawn = true;
        for (int view = 0; view < fields_.views(); ++view) {
            transform_.run(raw_pixels(scratch.sample), key_of_view(task.key, view), scratch.transform,
                           image_.at(task.place.bytes(fields_.view_at(view))));
        }
        scratch.image = scratch.transform.input;
        fields_.write(task, OpRange::remaining);
    }
    SampleReader* reader() override { return &reader_; }

  private:
    // Replaces the sample's image, masks and boxes by what the cache keeps.
    void prepare(const SampleTask& task) const {
        SampleScratch& scratch = task.scratch;
        if (fields_.views() > 0) {
            const bool copy = fields_.views() > 1;  // the ops of the first view write to the scratch
            const ConstImageView image = transform_.prepare(scratch.sample, scratch.transform, task.clock);
            set_pixels(image, copy, scratch.sample, scratch.packed);
            scratch.image = scratch.transform.input;
        }
        fields_.prepare(task);
    }

    SampleReader reader_;
    const ImageSlot image_;
};

}  // namespace

std::unique_ptr<SampleWriter> make_cached_writer(const WriterSetup& setup, const CacheOptions& cache) {
    return std::make_unique<CachedWriter>(setup, cache);
}

}  // namespace stoker
