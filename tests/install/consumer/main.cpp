// A user's data set in three methods, fed through the loader as any other; its images are PNG files in memory, so that
// the decoders are linked too. And the data that Stoker draws.
#include <cstdio>
#include <vector>

#include "stoker/base/hash.h"
#include "stoker/codecs/encode.h"
#include "stoker/formats/open.h"
#include "stoker/pipeline/loader.h"

namespace {

// `count` PNG images of 6x4 pixels, image i grey of brightness i.
class Greys final : public stoker::Dataset {
  public:
    explicit Greys(std::int64_t count) {
        for (std::int64_t i = 0; i < count; ++i) {
            const std::vector<std::uint8_t> pixels(4 * 6, static_cast<std::uint8_t>(i));
            files_.push_back(stoker::encode_png({pixels.data(), 4, 6, 1, 6}));
        }
    }
    std::int64_t size() const override { return static_cast<std::int64_t>(files_.size()); }
    void read(std::int64_t index, stoker::Sample& sample) const override {
        sample.bytes = files_[static_cast<std::size_t>(index)];
        sample.encoded = true;
        sample.label = index % 10;
    }

  private:
    std::vector<std::vector<std::byte>> files_;
};

}  // namespace

int main() {
    const stoker::LoaderOptions options{.batch_size = 8, .workers = 2, .epochs = 1, .seed = 7};
    stoker::Loader loader(std::make_shared<Greys>(20), stoker::Transform(), options);
    std::int64_t samples = 0;
    double sum = 0;
    while (const auto batch = loader.next()) {
        samples += batch->size();
        for (const float value : batch->field(stoker::kImageField).as<float>()) {
            sum += value * 255;
        }
    }
    std::printf("own data: %d samples, brightness %.1f\n", static_cast<int>(samples), sum / (4 * 6 * 3));

    const auto digits = stoker::open_dataset("synth:digits?count=64&seed=1", stoker::Split::train);
    std::printf("digits: %d samples, hash %d\n", static_cast<int>(digits->size()),
                stoker::hash_text("a") == 0xe6c632b61e964e1f);
    return 0;
}
