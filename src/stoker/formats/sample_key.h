// The name of a sample that may be bad.
#pragma once

#include <cstdint>
#include <string>

#include "stoker/base/error.h"
#include "stoker/formats/source.h"

namespace stoker {

// Its key; its index where the key lies in a record that is damaged.
inline std::string key_or_index(const Source& source, std::int64_t index) {
    try {
        return source.key(index);
    } catch (const DataError&) {
        return std::to_string(index);
    }
}

}  // namespace stoker
