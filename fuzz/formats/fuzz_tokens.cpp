// A byte that chooses, then arbitrary bytes as .bin, .u32.bin, .npy, and .bin with .idx: refused, or every window is as
// long as the context.
#include <cstring>

#include "fuzz/formats/sources.h"
#include "stoker/formats/tokens/token_dataset.h"

namespace {

using namespace stoker;
using namespace stoker::fuzz;

void check(const std::string& path, std::int64_t context) {
    succeeds([&] {
        const TokenDataset dataset(path, Split::train, context);
        require(dataset.size() >= 1 && !dataset.has_image());
        const auto bytes = static_cast<std::size_t>(context + 1) * sizeof(std::int64_t);
        Sample sample;
        for (const std::int64_t index : {std::int64_t{0}, dataset.size() / 2, dataset.size() - 1}) {
            succeeds([&] {
                dataset.read(index, sample);
                require(sample.fields.size() == 1 && sample.fields[0].bytes.size() == bytes);
                touch(sample.fields[0].bytes);
            });
        }
    });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const Scratch scratch;
    if (size == 0) {
        return 0;
    }
    const auto input = as_input(data, size).subspan(1);
    const std::int64_t context = 1 + (data[0] & 0x7f);
    const bool wide = (data[0] & 0x80) != 0;
    check(scratch.write(wide ? "x.u32.bin" : "x.bin", input).string(), context);
    check(scratch.write("x.npy", input).string(), context);
    scratch.write("y.idx", input);
    check(scratch.write("y.bin", input).string(), context);
    return 0;
}
