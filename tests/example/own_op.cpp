// docs/cpp.md: an image op of one's own.
#include <algorithm>
#include <cstdio>
#include <memory>

#include "stoker/formats/open.h"
#include "stoker/pipeline/loader.h"

struct Speckle : stoker::CustomOp {  // sets one random pixel in ten to 255
    void apply(stoker::ImageView image, stoker::Rng rng) const override {
        for (int i = 0; i < image.height * image.width / 10; ++i) {
            const auto row = static_cast<int>(rng.below(static_cast<std::uint32_t>(image.height)));
            image.row(row)[rng.below(static_cast<std::uint32_t>(image.width * image.channels))] = 255;
        }
    }
};

int main() {
    const std::shared_ptr<stoker::Dataset> digits = stoker::open_dataset("synth:digits", stoker::Split::train);
    const stoker::Transform ops{stoker::PixelOp(std::make_shared<Speckle>()), stoker::kMnistNormalize};
    stoker::Loader loader(digits, ops, {.batch_size = 100, .workers = 2});
    float most = 0;
    for (const std::shared_ptr<stoker::Batch>& batch : loader) {
        for (const float value : batch->field("image").as<float>()) {
            most = std::max(most, value);
        }
    }
    std::printf("the brightest pixel is %.2f\n", static_cast<double>(most));
    return most > 2 ? 0 : 1;
}
