// docs/cpp.md: masks and boxes that follow their image, and a user's loop over tensors.
#include <array>
#include <cstdio>
#include <memory>

#include "stoker/bridge/tensor.h"
#include "stoker/pipeline/loader.h"

struct Scenes : stoker::Dataset {  // a bright square on a dark ground, its mask and its box
    std::vector<stoker::Field> names = {{.name = "mask", .kind = stoker::FieldKind::mask},
                                        {.name = "boxes", .kind = stoker::FieldKind::boxes, .shape = {-1, 4}}};

    std::int64_t size() const override { return 200; }
    std::span<const stoker::Field> fields() const override { return names; }
    void read(std::int64_t i, stoker::Sample& sample) const override {
        stoker::FieldValue& mask = sample.field(0);
        mask.storage.resize(32 * 32);
        const std::int64_t left = i % 16;
        for (std::int64_t p = 0; p < 32 * 32; ++p) {
            mask.storage.data()[p] = std::byte{p % 32 >= left && p % 32 < left + 8 && p / 32 < 8};
        }
        mask.set_raw(mask.storage.bytes(), 32, 32, 1);
        sample.copy_elements(mask.bytes);  // the picture: 0 and 1 here
        sample.set_raw(sample.storage.bytes(), 32, 32, 1);
        sample.field(1).copy_elements(std::array{static_cast<float>(left), 0.0f, static_cast<float>(left + 8), 8.0f});
    }
};

int main() {
    const stoker::Transform ops{stoker::RandomResizedCrop{.height = 24, .width = 24}, stoker::HorizontalFlip{}};
    stoker::Loader loader(std::make_shared<Scenes>(), ops, {.batch_size = 50, .workers = 2});
    for (const std::shared_ptr<stoker::Batch>& batch : loader) {     // one epoch
        const at::Tensor image = stoker::as_tensor(batch, "image");  // float32 (50, 1, 24, 24)
        const at::Tensor mask = stoker::as_tensor(batch, "mask");    // uint8 (50, 24, 24)
        const stoker::RaggedView boxes = batch->ragged("boxes");     // values (boxes, 4), offsets (51)
        std::printf("%d images, %d masks, %d boxes\n", static_cast<int>(image.size(0)), static_cast<int>(mask.size(0)),
                    static_cast<int>(boxes.offsets.back()));
    }
}
