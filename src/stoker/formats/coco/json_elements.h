// Cuts a large JSON object into the elements of its arrays, so that each can be parsed separately: a file of any size
// takes the memory of one element.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>

namespace stoker {

struct JsonElement {
    std::string_view key;   // of the outermost object's member, as it stands between the quotes
    std::string_view text;  // one element of its array
    std::uint64_t offset = 0;
};

// Calls `visit` for each element of each array that is a member of the outermost object. Other members are skipped, and
// empty arrays have no element. Brackets and strings alone are checked: whether an element is JSON is for its parser to
// say. Throws DataError with the offset.
void each_json_element(std::string_view text, const std::function<void(const JsonElement&)>& visit);

}  // namespace stoker
