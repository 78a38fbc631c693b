// Arbitrary bytes as two IDX files, plain or gzip. The first two bytes are the length of the labels' file.
#include "fuzz/formats/sources.h"
#include "stoker/formats/idx_cifar/idx.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace stoker;
    using namespace stoker::fuzz;
    static const Scratch scratch;
    if (size < 2) {
        return 0;
    }
    const auto input = as_input(data + 2, size - 2);
    const std::size_t length = std::min<std::size_t>(std::size_t{data[0]} << 8 | data[1], input.size());
    const auto labels = scratch.write("labels", input.first(length));
    const auto images = scratch.write("images", input.subspan(length));
    for (const auto& path : {labels, images}) {
        succeeds([&] { touch(IdxFile(path).bytes()); });
    }
    succeeds([&] { read_samples(IdxDataset(images, labels, Split::train)); });
    return 0;
}
