#include "stoker/formats/arrays/pt_state_dict.h"

#include <optional>

namespace stoker {

PtStateDict::PtStateDict(const std::filesystem::path& path) : file_(path, PtFile::StateDict()) {
    for (std::size_t i = 0; i < file_.arrays().size(); ++i) {
        const ArrayView& array = file_.arrays()[i];
        const auto dtype = array.type.kind == ArrayKind::boolean ? std::nullopt : dtype_of_array(array.type);
        if (!dtype) {
            continue;  // a model that has this tensor misses it
        }
        auto* bytes = const_cast<std::byte*>(array.bytes.data());  // read only, as in SafetensorsFile
        tensors_.push_back({array.name, {.data = bytes, .dtype = *dtype, .shape = array.shape}});
    }
}

}  // namespace stoker
