// Runs another program and reads what it prints.
#pragma once

#include <string>
#include <vector>

namespace stoker::cli {

// The standard output of `command` (its first word is looked up on PATH; no shell). Its standard
// error goes where ours goes. Throws Error where it cannot be started or ends with a failure.
std::string run_child(const std::vector<std::string>& command);

}  // namespace stoker::cli
