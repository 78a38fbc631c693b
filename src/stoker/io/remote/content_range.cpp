// Numbers of more than 18 digits are refused, so that no sum of two overflows.
#include "stoker/io/remote/content_range.h"

#include <charconv>

namespace stoker {
namespace {

std::optional<std::uint64_t> number(std::string_view text) {
    std::uint64_t value = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    if (text.empty() || text.size() > 18 || error != std::errc() || stop != end) {
        return std::nullopt;
    }
    return value;
}

}  // namespace

std::optional<ContentRange> parse_content_range(std::string_view value) {
    constexpr std::string_view kUnit = "bytes ";
    const std::size_t slash = value.find('/');
    if (!value.starts_with(kUnit) || slash == std::string_view::npos) {
        return std::nullopt;
    }
    const std::string_view range = value.substr(kUnit.size(), slash - kUnit.size());
    const std::string_view total = value.substr(slash + 1);
    ContentRange found{.bytes = {}, .total = number(total)};
    if (!found.total && total != "*") {
        return std::nullopt;
    }
    if (range == "*") {
        return found;
    }
    const std::size_t dash = range.find('-');
    if (dash == std::string_view::npos) {
        return std::nullopt;
    }
    const auto first = number(range.substr(0, dash));
    const auto last = number(range.substr(dash + 1));
    if (!first || !last || *last < *first || (found.total && *last >= *found.total)) {
        return std::nullopt;
    }
    found.bytes = ByteRange{.offset = *first, .size = *last - *first + 1};
    return found;
}

}  // namespace stoker
