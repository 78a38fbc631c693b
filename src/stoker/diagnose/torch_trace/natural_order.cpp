#include "stoker/diagnose/torch_trace/natural_order.h"

#include <algorithm>

namespace stoker {
namespace {

// Takes the digits at the front of `text`, without leading zeros.
std::string_view take_number(std::string_view& text) {
    const std::size_t size = std::min(text.find_first_not_of("0123456789"), text.size());
    std::string_view number = text.substr(0, size);
    text.remove_prefix(size);
    number.remove_prefix(std::min(number.find_first_not_of('0'), number.size()));
    return number;
}

bool begins_with_digit(std::string_view text) {
    return !text.empty() && text.front() >= '0' && text.front() <= '9';
}

}  // namespace

bool NaturalLess::operator()(std::string_view a, std::string_view b) const {
    std::string_view left = a;
    std::string_view right = b;
    while (!left.empty() && !right.empty()) {
        if (begins_with_digit(left) && begins_with_digit(right)) {
            const std::string_view x = take_number(left);
            const std::string_view y = take_number(right);
            if (x != y) {
                return x.size() != y.size() ? x.size() < y.size() : x < y;
            }
        } else if (left.front() != right.front()) {
            return left < right;
        } else {
            left.remove_prefix(1);
            right.remove_prefix(1);
        }
    }
    return left.empty() && right.empty() ? a < b : left.empty();
}

}  // namespace stoker
