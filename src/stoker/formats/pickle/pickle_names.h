// The names that a pickle may mention, and what they mean to us. Whoever writes a pickle can name any function of any
// module: what is not in this table is never looked up anywhere.
#pragma once

#include <cstdint>
#include <string_view>

#include "stoker/formats/array.h"

namespace stoker {

enum class PickleCall : std::uint8_t {
    reconstruct,     // numpy's empty array, to be filled by BUILD
    ndarray,         // only named as an argument
    dtype,           // numpy.dtype("u1", ...)
    scalar,          // numpy.core.multiarray.scalar(dtype, bytes)
    frombuffer,      // numpy's array of protocol 5
    encode,          // text of Latin-1 letters to bytes: how protocols 0 to 2 write bytes
    bytes,           // bytes() and bytearray(...)
    ordered_dict,    // collections.OrderedDict()
    rebuild_tensor,  // torch's tensor on a storage
    parameter,       // torch's parameter around a tensor
    storage,         // the type of a torch storage
};

struct PickleName {
    std::string_view module;
    std::string_view name;
    PickleCall call;
    ArrayType type = {};  // of a storage
    bool bfloat16 = false;
};

// Null for every other name.
const PickleName* find_pickle_name(std::string_view module, std::string_view name);

}  // namespace stoker
