// NumPy 2 renamed numpy.core to numpy._core, and Python 3 renamed __builtin__ to builtins; both names are listed.
#include "stoker/formats/pickle/pickle_reader.h"

#include <algorithm>
#include <iterator>

namespace stoker {
namespace {

constexpr ArrayType type(ArrayKind kind, int size) {
    return {.kind = kind, .item_size = size, .big_endian = false};
}

constexpr PickleName kNames[] = {
    {"numpy._core.numeric", "_frombuffer", PickleCall::frombuffer},
    {"numpy.core.numeric", "_frombuffer", PickleCall::frombuffer},
    {"numpy._core.multiarray", "_reconstruct", PickleCall::reconstruct},
    {"numpy.core.multiarray", "_reconstruct", PickleCall::reconstruct},
    {"numpy", "ndarray", PickleCall::ndarray},
    {"numpy", "dtype", PickleCall::dtype},
    {"numpy._core.multiarray", "scalar", PickleCall::scalar},
    {"numpy.core.multiarray", "scalar", PickleCall::scalar},
    {"_codecs", "encode", PickleCall::encode},
    {"builtins", "bytearray", PickleCall::bytes},
    {"builtins", "bytes", PickleCall::bytes},
    {"__builtin__", "bytearray", PickleCall::bytes},
    {"__builtin__", "bytes", PickleCall::bytes},
    {"collections", "OrderedDict", PickleCall::ordered_dict},
    {"torch._utils", "_rebuild_tensor_v2", PickleCall::rebuild_tensor},
    {"torch._utils", "_rebuild_tensor_v3", PickleCall::rebuild_typed_tensor},
    {"torch._tensor", "_rebuild_from_type_v2", PickleCall::rebuild_subclass},
    {"torch._utils", "_rebuild_parameter", PickleCall::parameter},
    {"torch._utils", "_rebuild_parameter_with_state", PickleCall::parameter},
    {"torch", "ByteStorage", PickleCall::storage, type(ArrayKind::unsigned_integer, 1)},
    {"torch", "CharStorage", PickleCall::storage, type(ArrayKind::signed_integer, 1)},
    {"torch", "ShortStorage", PickleCall::storage, type(ArrayKind::signed_integer, 2)},
    {"torch", "IntStorage", PickleCall::storage, type(ArrayKind::signed_integer, 4)},
    {"torch", "LongStorage", PickleCall::storage, type(ArrayKind::signed_integer, 8)},
    {"torch", "BoolStorage", PickleCall::storage, type(ArrayKind::boolean, 1)},
    {"torch", "HalfStorage", PickleCall::storage, type(ArrayKind::floating, 2)},
    {"torch", "FloatStorage", PickleCall::storage, type(ArrayKind::floating, 4)},
    {"torch", "DoubleStorage", PickleCall::storage, type(ArrayKind::floating, 8)},
    {"torch", "BFloat16Storage", PickleCall::storage, type(ArrayKind::bfloat16, 2)},
    {"torch.storage", "UntypedStorage", PickleCall::storage, type(ArrayKind::unsigned_integer, 1)},
    {"torch", "uint8", PickleCall::torch_dtype, type(ArrayKind::unsigned_integer, 1)},
    {"torch", "uint16", PickleCall::torch_dtype, type(ArrayKind::unsigned_integer, 2)},
    {"torch", "uint32", PickleCall::torch_dtype, type(ArrayKind::unsigned_integer, 4)},
    {"torch", "uint64", PickleCall::torch_dtype, type(ArrayKind::unsigned_integer, 8)},
};

}  // namespace

const PickleName* find_pickle_name(std::string_view module, std::string_view name) {
    const auto* const found = std::ranges::find_if(
        kNames, [&](const PickleName& known) { return known.name == name && known.module == module; });
    return found == std::end(kNames) ? nullptr : found;
}

}  // namespace stoker
