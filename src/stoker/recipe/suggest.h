// "did you mean": the known name nearest to a mistyped one.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace stoker {

// How many insertions, deletions, substitutions and swaps of neighbours turn `a` into `b`, no
// character being touched twice (the "optimal string alignment" distance).
int edit_distance(std::string_view a, std::string_view b);

// The nearest of `names`, the first among equals; empty where none is near enough to be meant: more
// than a third of its characters would have to change.
std::string nearest_name(std::string_view name, std::span<const std::string> names);

}  // namespace stoker
