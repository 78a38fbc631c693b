// The global names that a pickle may use, and their meaning. A pickle can name any function of any module; names that
// are not in this table are refused and never looked up.
#pragma once

#include <cstdint>
#include <string_view>

#include "stoker/formats/array.h"

namespace stoker {

enum class PickleCall : std::uint8_t {
    reconstruct,     // an empty NumPy array, which BUILD fills
    ndarray,         // only as an argument of reconstruct
    dtype,           // numpy.dtype("u1", ...)
    scalar,          // numpy.core.multiarray.scalar(dtype, bytes)
    frombuffer,      // a NumPy array in protocol 5
    encode,          // Latin-1 text to bytes, as protocols 0 to 2 write bytes
    bytes,           // bytes() and bytearray(...)
    ordered_dict,    // collections.OrderedDict()
    rebuild_tensor,  // a torch tensor on a storage
    parameter,       // a torch parameter around a tensor
    storage,         // the type of a torch storage
};

struct PickleName {
    std::string_view module;
    std::string_view name;
    PickleCall call;
    ArrayType type = {};  // of a storage's elements
    bool bfloat16 = false;
};

// Null for every other name.
const PickleName* find_pickle_name(std::string_view module, std::string_view name);

}  // namespace stoker
