// A comparison of two runs as text for a person: the verdict, the phases, what differs, rules that fire in one alone.
#pragma once

#include <string>

#include "stoker/diagnose/comparison/comparison.h"

namespace stoker::cli {

// Several lines. `a` and `b` name the runs. Names from files are not made printable here; print_lines does that.
std::string comparison_text(const Comparison& comparison, const std::string& a, const std::string& b);

}  // namespace stoker::cli
