// The Content-Range header of RFC 9110, section 14.4: "bytes 0-99/1234", "bytes 0-99/*", "bytes */1234".
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "stoker/io/byte_file.h"

namespace stoker {

struct ContentRange {
    std::optional<ByteRange> bytes;      // empty: "*", an answer without a range
    std::optional<std::uint64_t> total;  // size of the whole object; empty: "*"
};

// Empty for anything else, also if the range ends before it begins or beyond the total.
std::optional<ContentRange> parse_content_range(std::string_view value);

}  // namespace stoker
