// Amounts of bytes as people read them.
#pragma once

#include <cstdint>
#include <string>

namespace stoker {

// 11010048 as "10.5 MiB".
std::string byte_text(std::int64_t bytes);

}  // namespace stoker
