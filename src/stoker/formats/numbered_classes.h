// Names for classes that nobody has named: their numbers, as far as labels can be class indices at all.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace stoker {

// Labels that need more are ids of some other kind, or damage: they get no names.
inline constexpr std::int64_t kMostNumberedClasses = std::int64_t{1} << 20;

// "0" to count - 1; none where there would be more than kMostNumberedClasses.
inline std::vector<std::string> numbered_classes(std::int64_t count) {
    std::vector<std::string> classes;
    for (std::int64_t label = 0; label < count && count <= kMostNumberedClasses; ++label) {
        classes.push_back(std::to_string(label));
    }
    return classes;
}

// "0" to the largest of the labels.
inline std::vector<std::string> numbered_classes_of(std::span<const std::int64_t> labels) {
    const std::int64_t largest = labels.empty() ? -1 : *std::ranges::max_element(labels);
    return largest < kMostNumberedClasses ? numbered_classes(largest + 1) : std::vector<std::string>();
}

}  // namespace stoker
