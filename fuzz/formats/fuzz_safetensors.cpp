// Arbitrary bytes as safetensors: as a header, as a checkpoint, and as a data set of images.
#include "fuzz/formats/sources.h"
#include "stoker/formats/arrays/array_dataset.h"
#include "stoker/formats/arrays/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace stoker;
    using namespace stoker::fuzz;
    static const Scratch scratch;
    const auto input = as_input(data, size);
    const bool good = succeeds([&] {
        for (const SafetensorsEntry& entry : parse_safetensors(input)) {
            touch(entry.bytes);
        }
    });
    const std::string path = scratch.write("d.safetensors", input).string();
    succeeds([&] {
        const SafetensorsFile file(path);
        require(good);
        for (const auto& [name, view] : file.tensors()) {
            touch({view.data, view.bytes()});
            require(file.contains(name));
        }
    });
    succeeds([&] {
        read_samples(ArrayDataset(path, Split::train));
        require(good);
    });
    read_as_fields([&](std::vector<FieldRequest> more) {
        return ArrayDataset(path, Split::train, {.image = "", .label = "", .more = std::move(more)});
    });
    return 0;
}
