// Call stacks in the formats of flame-graph tools.
#pragma once

#include <span>
#include <string>

#include "stoker/profile/stacks.h"

namespace stoker {

// A line for each stack with the microseconds that it spent itself, for flamegraph.pl: "training thread;forward 1234".
std::string collapsed_stacks(std::span<const ThreadStacks> threads);

// speedscope's file format: an evented profile for each thread, in microseconds from the first event.
std::string speedscope_json(std::span<const ThreadStacks> threads, const std::string& name);

// A file of Python's profilers, which pstats.Stats and snakeviz read: the dictionary (file, line, function) -> (calls
// that are not recursive, calls, own seconds, seconds with callees, callers), in marshal's format. The file is "~", as
// for functions without one.
std::string pstats_file(std::span<const ThreadStacks> threads);

}  // namespace stoker
