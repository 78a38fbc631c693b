// The index of a data set's JPEGs (codecs/jpeg/jpeg_index.h) in the user's cache directory.
#pragma once

#include <memory>
#include <string>

#include "stoker/codecs/jpeg/jpeg_index.h"

namespace stoker {

// `data`: a data set's path or URL, as in recipes. Null without a cache directory.
std::shared_ptr<JpegIndex> open_jpeg_index(const std::string& data);

}  // namespace stoker
