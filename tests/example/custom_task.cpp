// docs/cpp.md: a user's loss and metric, on a further field of the data.
#include <array>
#include <cmath>
#include <memory>
#include <numbers>

#include "stoker/train/trainer.h"

struct Dials : stoker::Dataset {  // a disc whose bright half points somewhere
    std::vector<stoker::Field> names = {{.name = "angle"}};

    std::int64_t size() const override { return 1024; }
    std::span<const stoker::Field> fields() const override { return names; }
    void read(std::int64_t i, stoker::Sample& sample) const override {
        const float angle = static_cast<float>(i % 64) * std::numbers::pi_v<float> / 32;
        sample.storage.resize(8 * 8);
        for (std::int64_t p = 0; p < 64; ++p) {
            const float x = static_cast<float>(p % 8) - 3.5F, y = static_cast<float>(p / 8) - 3.5F;
            const bool bright = x * std::cos(angle) + y * std::sin(angle) > 0;
            sample.storage.data()[p] = std::byte{bright ? std::uint8_t{250} : std::uint8_t{0}};
        }
        sample.set_raw(sample.storage.bytes(), 8, 8, 1);
        sample.field(0).copy_elements(std::array{angle});
    }
};

// From 0 to 2 for each picture, (N): how far its two outputs, a direction, point away from the angle.
at::Tensor off(const at::Tensor& outputs, const stoker::DeviceBatch& batch) {
    return outputs.select(1, 1).atan2(outputs.select(1, 0)).sub(batch.field("angle")).cos().neg().add(1);
}

int main() {
    stoker::Recipe recipe;
    recipe.model.classes = 2;  // outputs
    const auto data = std::make_shared<Dials>();
    const auto loss = [](const at::Tensor& outputs, const auto& batch) { return off(outputs, batch).mean(); };
    stoker::Trainer trainer(recipe, {.train = data, .val = data}, nullptr,
                            stoker::CustomTask{.loss = loss, .metrics = {{"off", off, /*higher_is_better=*/false}}});
    const stoker::TrainResult result = trainer.fit({.out = "runs/dials", .resume = "auto"});
    return result.epochs.back().val_metrics.front().value < 0.1 ? 0 : 1;
}
