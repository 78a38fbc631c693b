// Comparison and copies of images, for the tests of the ops.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <span>

#include "stoker/base/image.h"

namespace stoker::testing {

// The largest difference of two values; 256 if the sizes differ.
inline int difference(const Image& image, std::span<const std::uint8_t> wanted) {
    if (image.bytes() != wanted.size()) {
        return 256;
    }
    int largest = 0;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
        largest = std::max(largest, std::abs(int{image.view().data[i]} - int{wanted[i]}));
    }
    return largest;
}

inline int difference(const Image& image, const Image& wanted) {
    return difference(image, std::span(wanted.view().data, wanted.bytes()));
}

inline Image copy_of(const Image& image) {
    Image copy(image.height(), image.width(), image.channels());
    copy_pixels(image.view(), copy.view());
    return copy;
}

}  // namespace stoker::testing
