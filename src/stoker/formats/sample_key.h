// The name of a sample that may be bad.
#pragma once

#include <cstdint>
#include <string>

#include "stoker/base/error.h"
#include "stoker/formats/dataset.h"

namespace stoker {

// Its key; its index where the key lies in a record that is damaged.
inline std::string key_or_index(const Dataset& dataset, std::int64_t index) {
    try {
        return dataset.key(index);
    } catch (const DataError&) {
        return std::to_string(index);
    }
}

}  // namespace stoker
