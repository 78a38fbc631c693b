// What a field's value holds, for comparisons.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "stoker/base/file.h"
#include "stoker/formats/dataset.h"

namespace stoker::testing {

template <typename Number>
std::vector<Number> numbers_of(const FieldValue& value) {
    std::vector<Number> numbers(value.bytes.size() / sizeof(Number));
    std::memcpy(numbers.data(), value.bytes.data(), value.bytes.size());
    return numbers;
}

inline std::string text_of(const FieldValue& value) {
    return std::string(as_text(value.bytes));
}

}  // namespace stoker::testing
