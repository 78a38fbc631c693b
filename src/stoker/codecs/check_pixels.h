// The one limit on image sizes, checked by every codec right after the header and before it takes
// any memory for pixels.
#pragma once

#include <cstdint>
#include <string>

#include <fmt/format.h>

#include "stoker/base/error.h"
#include "stoker/codecs/codec.h"

namespace stoker {

// `where` is the codec's name. Throws DataError.
inline void check_pixels(const std::string& where, std::int64_t height, std::int64_t width) {
    if (height > 0 && width > 0 && height <= kMaxPixels / width) {
        return;
    }
    throw DataError({}, {.where = where,
                         .expected = fmt::format("an image of 1 to {} pixels", kMaxPixels),
                         .got = fmt::format("a header that says {} x {}", width, height)});
}

}  // namespace stoker
