// Patterns for parameter names in recipes: `*` stands for any part of a name, as in "layer1.*" or "bn*.weight".
#pragma once

#include <string_view>

namespace stoker {

// Tries the first `*` with every length and matches the rest of the pattern against what is left.
inline bool matches(std::string_view name, std::string_view pattern) {
    const std::size_t star = pattern.find('*');
    if (star == std::string_view::npos) {
        return name == pattern;
    }
    bool found = false;
    for (std::size_t skip = star; !found && name.starts_with(pattern.substr(0, star)) && skip <= name.size(); ++skip) {
        found = matches(name.substr(skip), pattern.substr(star + 1));
    }
    return found;
}

}  // namespace stoker
