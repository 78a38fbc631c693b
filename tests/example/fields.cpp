// docs/cpp.md: a data set with further fields, and a user's loop over its batches.
#include <array>
#include <cstdio>
#include <memory>

#include "stoker/pipeline/loader.h"

struct Dials : stoker::Dataset {  // a dial's picture, its angle, and the marks on it: any number of pairs
    std::vector<stoker::Field> names = {{.name = "angle", .dtype = stoker::DType::float32},
                                        {.name = "marks", .dtype = stoker::DType::int64, .shape = {-1, 2}}};

    std::int64_t size() const override { return 100; }
    std::span<const stoker::Field> fields() const override { return names; }
    void read(std::int64_t i, stoker::Sample& sample) const override {
        sample.storage.resize(8 * 8);  // the picture: grey here
        sample.set_raw(sample.storage.bytes(), 8, 8, 1);
        sample.field(0).copy_elements(std::array{static_cast<float>(i) / 100});
        const std::vector<std::array<std::int64_t, 2>> marks(static_cast<std::size_t>(i % 3), {i, 7});
        sample.field(1).copy_elements(marks);
    }
};

int main() {
    stoker::Loader loader(std::make_shared<Dials>(), stoker::Transform(), {.batch_size = 20, .workers = 2});
    while (const auto batch = loader.next()) {
        const auto angles = batch->field("angle").as<float>();    // (20)
        const stoker::RaggedView marks = batch->ragged("marks");  // values (all marks, 2), offsets (21)
        std::printf("first angle %.2f, %lld marks\n", static_cast<double>(angles[0]),
                    static_cast<long long>(marks.offsets.back()));
    }
}
