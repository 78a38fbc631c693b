// Arbitrary bytes as a pickle, and as the pickle in a .pt file with storages. Visits the values to a bounded depth,
// since pickles may contain themselves.
#include <string>

#include "formats/arrays/npz_support.h"
#include "fuzz/formats/sources.h"
#include "stoker/formats/arrays/pt.h"
#include "stoker/formats/pickle/pickle.h"

namespace {

using namespace stoker;
using namespace stoker::fuzz;
using Kind = PickleValue::Kind;

void visit(const PickleValue& value, int depth, int& left) {
    if (--left < 0) {
        return;
    }
    require(!value.describe().empty());
    const Kind kind = value.kind();
    if (kind == Kind::text || kind == Kind::bytes) {
        touch(as_bytes(value.text()));
    } else if (kind == Kind::array) {
        const ArrayView array = value.array();
        require(array.bytes.size() == checked_array_bytes(array.type, array.shape));
        touch(array.bytes);
    } else if (kind == Kind::tensor) {
        const PickledTensor tensor = value.tensor();
        require(tensor.shape.size() == tensor.strides.size());
        touch(as_bytes(tensor.storage));
    } else if (kind == Kind::boolean || kind == Kind::integer) {
        value.integer();
    } else if (kind == Kind::list || kind == Kind::tuple || kind == Kind::dict) {
        for (std::size_t i = 0; i < value.size() && depth > 0 && left > 0; ++i) {
            if (kind == Kind::dict) {
                visit(value.key(i), depth - 1, left);
            }
            visit(value[i], depth - 1, left);
        }
        require(kind != Kind::dict || !value.find("no such key").has_value());
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static Pickle pickle;  // reused: no pickle may affect the next one
    const auto input = as_input(data, size);
    succeeds([&] {
        const PickleValue root = pickle.read(input);
        int left = 2000;
        visit(root, 6, left);
    });
    const std::string structure(reinterpret_cast<const char*>(input.data()), input.size());
    const std::string storage(64, '\1');
    const std::string file =
        stoker::testing::zip({{"a/data.pkl", structure}, {"a/data/0", storage}, {"a/data/1", storage, true}});
    succeeds([&] {
        const PtFile opened(as_bytes(file));
        std::size_t total = 0;
        for (const ArrayView& array : opened.arrays()) {
            require(array.bytes.size() == checked_array_bytes(array.type, array.shape));
            touch(array.bytes.first(std::min<std::size_t>(array.bytes.size(), 100)));
            total += array.bytes.size();
        }
        require(opened.arrays().size() <= 4096 && total <= 4096 * file.size());
    });
    return 0;
}
