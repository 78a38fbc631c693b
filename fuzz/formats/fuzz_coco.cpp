// Arbitrary bytes as COCO's annotations: refused, or each box belongs to an image and a class.
#include <algorithm>
#include <cmath>

#include "fuzz/formats/sources.h"
#include "stoker/base/file.h"
#include "stoker/formats/coco/coco_index.h"
#include "stoker/formats/sample_files.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace stoker;
    using namespace stoker::fuzz;
    CocoIndex index;
    if (!succeeds([&] { index = parse_coco(as_text(as_input(data, size))); })) {
        return 0;
    }
    require(!index.files.empty() && !index.classes.empty() && index.begins.size() == index.files.size() + 1);
    require(index.begins.front() == 0 && index.begins.back() == index.boxes.size());
    require(std::ranges::is_sorted(index.begins));
    require(std::ranges::all_of(index.files, [](const std::string& file) { return stays_within_folder(file); }));
    for (const CocoBox& box : index.boxes) {
        require(box.label >= 0 && box.label < static_cast<std::int64_t>(index.classes.size()) && box.crowd <= 1);
        require(std::ranges::all_of(box.corners, [](float side) { return std::isfinite(side); }));
    }
    return 0;
}
