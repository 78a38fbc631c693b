// docs/cpp.md: a user's image op.
#include <algorithm>
#include <cstdio>
#include <memory>

#include "stoker/formats/open.h"
#include "stoker/pipeline/loader.h"
#include "stoker/pipeline/transforms/op_table.h"

struct Speckle : stoker::CustomOp {  // sets a share of the values to 255
    explicit Speckle(double share) : share_(share) {}

    void apply(stoker::ImageView image, stoker::Rng rng) const override {
        const auto count = static_cast<int>(share_ * image.height * image.width);
        for (int i = 0; i < count; ++i) {
            const auto row = static_cast<int>(rng.below(static_cast<std::uint32_t>(image.height)));
            image.row(row)[rng.below(static_cast<std::uint32_t>(image.width * image.channels))] = 255;
        }
    }

  private:
    double share_;
};

int main() {
    stoker::register_op("speckle", [](stoker::OpOptions& options) {
        return std::make_shared<Speckle>(options.number("share", 0.1, 0, 1));
    });
    const std::shared_ptr<stoker::Dataset> digits = stoker::open_dataset("synth:digits", stoker::Split::train);
    // As in a recipe: train_ops = [{op = "speckle", share = 0.2}, {op = "normalize", preset = "mnist"}]
    const std::vector<stoker::OpSpec> ops = {{"speckle", {{"share", 0.2}}}, {"normalize", {{"preset", "mnist"}}}};
    stoker::Loader loader(digits, stoker::Transform(ops), {.batch_size = 100, .workers = 2});
    float most = 0;
    for (const std::shared_ptr<stoker::Batch>& batch : loader) {
        for (const float value : batch->field("image").as<float>()) {
            most = std::max(most, value);
        }
    }
    std::printf("the brightest pixel is %.2f\n", static_cast<double>(most));
    return most > 2 ? 0 : 1;
}
