// Reads arbitrary bytes as a zip file, with all its members, and as a .pt file of data and of weights.
#include "fuzz/formats/sources.h"
#include "stoker/formats/arrays/pt.h"
#include "stoker/io/zip.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace stoker;
    using namespace stoker::fuzz;
    const auto input = as_input(data, size);
    succeeds([&] {
        const ZipFile file(input);
        std::uint64_t packed = 0;
        for (const ZipEntry& entry : file.entries()) {
            require(file.find(entry.name) == &entry);
            packed += entry.compressed_size;
            succeeds([&] { require(file.inflate(entry).size() == entry.size); });
            succeeds([&] { touch(file.stored(entry)); });
        }
        require(packed <= input.size());
    });
    succeeds([&] {
        const PtFile file(input);
        for (const ArrayView& array : file.arrays()) {
            require(array.bytes.size() == checked_array_bytes(array.type, array.shape));
            touch(array.bytes.first(std::min<std::size_t>(array.bytes.size(), 100)));
        }
    });
    succeeds([&] {
        const PtFile file(input, PtFile::StateDict());
        for (const ArrayView& array : file.arrays()) {
            require(array.bytes.size() == checked_array_bytes(array.type, array.shape));
            touch(array.bytes.first(std::min<std::size_t>(array.bytes.size(), 100)));
        }
    });
    return 0;
}
