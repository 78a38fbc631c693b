// The index of a data set's JPEGs (codecs/jpeg/jpeg_index.h) in the user's cache directory.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "stoker/codecs/jpeg/jpeg_index.h"

namespace stoker {

// `data`: a data set's path or URL, as in recipes; `images`: about as many as it has. Null without a cache directory.
std::shared_ptr<JpegIndex> open_jpeg_index(const std::string& data, std::int64_t images);

}  // namespace stoker
