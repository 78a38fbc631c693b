// Counts as people read them: with commas, and with a noun in the singular or the plural.
#pragma once

#include <cstdint>
#include <string>

namespace stoker {

// 1234567.8 as "1,234,568".
std::string with_commas(double value);
// 1 and "image" as "image", 2 as "images"; "class" as "classes".
std::string plural(std::int64_t count, const std::string& noun);
// 1 and "image" as "1 image", 12345 as "12,345 images".
std::string pluralize(std::int64_t count, const std::string& noun);

}  // namespace stoker
