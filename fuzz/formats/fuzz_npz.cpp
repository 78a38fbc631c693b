// Arbitrary bytes as .npz: both splits as data sets, and all of its members at once.
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
    succeeds([&] {
        const NpzFile file(path);
        for (const ArrayView& view : file.arrays()) {
            require(view.bytes.size() == checked_array_bytes(view.type, view.shape));
            touch(view.bytes);
        }
    });
    return 0;
}
