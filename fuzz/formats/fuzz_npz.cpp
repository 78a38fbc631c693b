// Arbitrary bytes as .npz: as data sets of both splits, and with all of its members.
#include "fuzz/formats/sources.h"
#include "stoker/formats/arrays/array_dataset.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace stoker;
    using namespace stoker::fuzz;
    static const Scratch scratch;
    const std::string path = scratch.write("d.npz", as_input(data, size)).string();
    for (const Split split : {Split::train, Split::test}) {
        succeeds([&] { read_samples(ArrayDataset(path, split)); });
    }
    read_as_fields([&](std::vector<FieldRequest> more) {
        return ArrayDataset(path, Split::train, {.image = "", .label = "", .more = std::move(more)});
    });
    succeeds([&] {
        const ArrayFile file = open_arrays(path, {});
        for (const ArrayView& view : file.arrays) {
            require(view.bytes.size() == checked_array_bytes(view.type, view.shape));
            touch(view.bytes);
        }
    });
    return 0;
}
