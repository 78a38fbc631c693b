#include "stoker/formats/arrays/pt_state_dict.h"

#include <optional>

namespace stoker {
namespace {

std::optional<DType> dtype_of_array(const ArrayType& type, bool bfloat16) {
    if (type.big_endian) {
        return std::nullopt;
    }
    switch (type.kind) {
        case ArrayKind::floating:
            return bfloat16              ? DType::bfloat16
                   : type.item_size == 2 ? DType::float16
                   : type.item_size == 4 ? DType::float32
                                         : DType::float64;
        case ArrayKind::signed_integer:
        case ArrayKind::unsigned_integer:
            return dtype_of_array(type);
        case ArrayKind::boolean:
            return std::nullopt;
    }
    return std::nullopt;
}

}  // namespace

PtStateDict::PtStateDict(const std::filesystem::path& path) : file_(path, PtFile::StateDict()) {
    for (std::size_t i = 0; i < file_.arrays().size(); ++i) {
        const ArrayView& array = file_.arrays()[i];
        const auto dtype = dtype_of_array(array.type, file_.is_bfloat16(i));
        if (!dtype) {
            continue;  // a model that has this tensor misses it
        }
        auto* bytes = const_cast<std::byte*>(array.bytes.data());  // read only, as in SafetensorsFile
        tensors_.push_back({array.name, {.data = bytes, .dtype = *dtype, .shape = array.shape}});
    }
}

}  // namespace stoker
