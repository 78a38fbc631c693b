// Lower case of ASCII letters, independent of the locale. Other bytes do not change.
#pragma once

#include <string>
#include <string_view>

namespace stoker {

inline char lower_case(char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
}

inline std::string lower_case(std::string_view text) {
    std::string lower(text);
    for (char& c : lower) {
        c = lower_case(c);
    }
    return lower;
}

}  // namespace stoker
