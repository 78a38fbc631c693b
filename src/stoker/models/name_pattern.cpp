// Recursive: the first `*` is tried with every length, and the rest of the pattern is matched against what is left.
#include "stoker/models/name_pattern.h"

namespace stoker {

bool matches(std::string_view name, std::string_view pattern) {
    const std::size_t star = pattern.find('*');
    if (star == std::string_view::npos) {
        return name == pattern;
    }
    if (!name.starts_with(pattern.substr(0, star))) {
        return false;
    }
    const std::string_view rest = pattern.substr(star + 1);
    for (std::size_t skip = star; skip <= name.size(); ++skip) {
        if (matches(name.substr(skip), rest)) {
            return true;
        }
    }
    return false;
}

}  // namespace stoker
