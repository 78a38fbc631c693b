// Growth of arrays whose length a file decides: the memory is checked before it is allocated.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "stoker/base/memory_limit.h"

namespace stoker {

// Makes room for `more` elements. Throws MemoryError if they do not fit into memory.
template <typename Elements>
void grow_checked(Elements& elements, std::size_t more) {
    if (const std::size_t needed = elements.size() + more; needed > elements.capacity()) {
        const std::size_t room = std::max(needed, 2 * elements.capacity());
        require_memory(room * sizeof(typename Elements::value_type), "");
        elements.reserve(room);
    }
}

template <typename Element>
void push_checked(std::vector<Element>& elements, Element element) {
    grow_checked(elements, 1);
    elements.push_back(std::move(element));
}

inline void append_checked(std::string& text, std::string_view more) {
    grow_checked(text, more.size());
    text.append(more);
}

}  // namespace stoker
