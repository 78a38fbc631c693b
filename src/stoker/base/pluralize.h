// Counts for messages: with commas, and with a noun in the singular or plural.
#pragma once

#include <cstdint>
#include <string>

namespace stoker {

// 1234567.8 gives "1,234,568".
std::string with_commas(double value);
// 1 and "image" give "image", 2 and "image" give "images", 2 and "class" give "classes".
std::string plural(std::int64_t count, const std::string& noun);
// 1 and "image" give "1 image", 12345 and "image" give "12,345 images".
std::string pluralize(std::int64_t count, const std::string& noun);

}  // namespace stoker
