// A field's value as numbers or text, for comparisons.
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "stoker/base/file.h"
#include "stoker/formats/dataset.h"

namespace stoker::testing {

template <typename Number>
std::vector<Number> numbers_of(const FieldValue& value) {
    std::vector<Number> numbers(value.bytes.size() / sizeof(Number));
    const auto out = std::as_writable_bytes(std::span(numbers));
    std::copy_n(value.bytes.begin(), out.size(), out.begin());
    return numbers;
}

inline std::string text_of(const FieldValue& value) {
    return std::string(as_text(value.bytes));
}

}  // namespace stoker::testing
