// Arbitrary bytes as .npy: as an array of numbers, as text, as labels, and as a data set of images.
#include "fuzz/formats/sources.h"
#include "stoker/formats/array.h"
#include "stoker/formats/arrays/array_dataset.h"
#include "stoker/formats/arrays/npy.h"

namespace {

using namespace stoker;
using namespace stoker::fuzz;

void check_array(std::span<const std::byte> input) {
    ArrayView view;
    if (!succeeds([&] { view = parse_npy(input); })) {
        return;
    }
    require(view.bytes.size() == checked_array_bytes(view.type, view.shape));
    require(view.offset + view.bytes.size() == input.size());
    touch(view.bytes);
    if (!view.shape.empty()) {
        std::vector<std::int64_t> labels;
        if (succeeds([&] { labels = array_labels(view, view.shape[0]); })) {
            require(static_cast<std::int64_t>(labels.size()) == view.shape[0]);
            require(std::ranges::all_of(labels, [](std::int64_t label) { return label >= -1; }));
        }
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const Scratch scratch;
    const auto input = as_input(data, size);
    check_array(input);
    succeeds([&] { require(parse_npy_text(input).size() <= input.size()); });
    const std::string path = scratch.write("x.npy", input).string();
    succeeds([&] { read_samples(ArrayDataset(path, Split::train)); });
    succeeds([&] { read_samples(ArrayDataset(path, Split::train, {.image = "", .label = "", .clips = true})); });
    return 0;
}
