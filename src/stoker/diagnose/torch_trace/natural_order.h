// The order in which a person counts files: "rank2.json" comes before "rank10.json".
#pragma once

#include <string_view>

namespace stoker {

// Compares runs of digits as numbers and everything else by bytes. Texts that differ in leading zeros only are ordered
// by bytes, so that different texts are never equal.
struct NaturalLess {
    using is_transparent = void;
    bool operator()(std::string_view a, std::string_view b) const;
};

}  // namespace stoker
