// The `stoker pack` command that a finding advises.
#pragma once

#include <string>
#include <string_view>

#include "stoker/diagnose/rules/run_summary.h"

namespace stoker {

bool recipe_sets(const JudgedRun& records, const char* key, const char* value);

// With `options`, and those that keep the fields of the recipe; behind it, how to train with what it writes. Data with
// a split of their own for validation leave it behind when the rest is packed.
std::string pack_command(const JudgedRun& records, const RankRecords& rank, std::string_view options = "");

}  // namespace stoker
