#include "stoker/pipeline/writers/writers.h"

namespace stoker {
namespace {

class PixelWriter final : public SampleWriter {
  public:
    PixelWriter(const WriterSetup& setup, const CacheOptions& cache)
        : SampleWriter(setup, [&](int view) { return setup.fields.view_spec(view); }),
          reader_(setup.dataset, cache),
          image_(setup.fields.image(setup.capacity)) {}

    void write(const SampleTask& task) override {
        SampleScratch& scratch = task.scratch;
        const bool kept = reader_.read(task.index, scratch.sample);
        task.clock.lap(Stage::read);
        fields_.check(scratch.sample);
        scratch.drawn = true;
        for (int view = 0; view < fields_.views(); ++view) {
            transform_.run(scratch.sample, key_of_view(task.key, view), scratch.transform,
                           image_.at(task.place.bytes(fields_.view_at(view))), task.clock);
        }
        scratch.image = scratch.transform.input;
        fields_.write(task, OpRange::all);
        if (!kept) {
            reader_.keep(task.index, scratch.sample);
        }
    }
    SampleReader* reader() override { return &reader_; }

  private:
    SampleReader reader_;
    const ImageSlot image_;
};

}  // namespace

std::unique_ptr<SampleWriter> make_pixel_writer(const WriterSetup& setup, const CacheOptions& cache) {
    return std::make_unique<PixelWriter>(setup, cache);
}

}  // namespace stoker
