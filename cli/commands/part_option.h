// --part INDEX/COUNT: an equal share of a data set's samples, for one of several machines.
#pragma once

#include <string>

#include "stoker/base/error.h"
#include "stoker/base/parse_number.h"
#include "stoker/pack/pack.h"

namespace stoker::cli {

// Throws InvalidArgument for a text that is not INDEX/COUNT; the numbers are not checked.
inline PackPart parse_part(const std::string& text) {
    const std::size_t slash = text.find('/');
    const auto index = parse_number<std::int64_t>(text.substr(0, slash));
    const auto count = parse_number<std::int64_t>(slash == std::string::npos ? "" : text.substr(slash + 1));
    if (!index || !count) {
        throw InvalidArgument({.where = "--part",
                               .expected = "INDEX/COUNT, such as 0/8, with an index from 0",
                               .got = "\"" + text + "\""});
    }
    return {.index = *index, .count = *count};
}

}  // namespace stoker::cli
