// Arbitrary bytes as an index.json of LitData and one chunk: refused, or every sample is read or is a bad one. A uint16
// with the length of the index, the index, the chunk.
#include "fuzz/formats/shard_folder.h"
#include "stoker/formats/litdata/litdata.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace stoker;
    using namespace stoker::fuzz;
    static const ShardFolder folder("x.bin");
    folder.read(as_input(data, size), [](const std::string& place, const FieldNames& fields) {
        const auto open = [](const std::string& name) { return open_byte_file(name); };
        return open_litdata(place, read_index(*open(place)), fields, open, 3);
    });
    return 0;
}
