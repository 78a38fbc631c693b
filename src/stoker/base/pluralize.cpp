// The nouns in messages are regular: they take "s", or "es" after an "s".
#include "stoker/base/pluralize.h"

#include <cstddef>
#include <fmt/format.h>

namespace stoker {

std::string with_commas(double value) {
    std::string digits = fmt::format("{:.0f}", value);
    for (auto i = static_cast<std::ptrdiff_t>(digits.size()) - 3; i > (value < 0 ? 1 : 0); i -= 3) {
        digits.insert(static_cast<std::size_t>(i), ",");
    }
    return digits;
}

std::string plural(std::int64_t count, const std::string& noun) {
    return count == 1 ? noun : noun + (noun.ends_with('s') || noun.ends_with("tch") ? "es" : "s");
}

std::string pluralize(std::int64_t count, const std::string& noun) {
    return with_commas(static_cast<double>(count)) + " " + plural(count, noun);
}

}  // namespace stoker
