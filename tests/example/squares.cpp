// The example of docs/cpp.md, compiled and run as a test.
#include <memory>

#include "stoker/train/trainer.h"

struct Squares : stoker::Dataset {  // bright squares left (0) or right (1)
    std::int64_t size() const override { return 2048; }
    void read(std::int64_t i, stoker::Sample& sample) const override {
        sample.storage.resize(16 * 16);
        for (int p = 0; p < 256; ++p) {
            sample.storage.data()[p] = std::byte{(p % 16 < 8) == (i % 2 == 0) ? std::uint8_t{200} : std::uint8_t{30}};
        }
        sample.bytes = sample.storage.bytes();
        sample.height = sample.width = 16, sample.channels = 1;
        sample.label = i % 2;
    }
};

int main() {
    stoker::Recipe recipe;
    recipe.model.classes = 2;
    recipe.train.epochs = 2;
    const auto data = std::make_shared<Squares>();
    stoker::Trainer trainer(recipe, {.train = data, .val = data});
    const stoker::TrainResult result = trainer.fit({.out = "runs/squares", .resume = "auto"});
    return result.epochs.back().val_accuracy > 0.99 ? 0 : 1;
}
