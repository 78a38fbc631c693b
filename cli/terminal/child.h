// Runs another program and reads what it prints.
#pragma once

#include <atomic>
#include <string>
#include <vector>

namespace stoker::cli {

// The standard output of `command` (its first word is looked up on PATH; no shell), run with the
// environment that we were given. Its standard error goes where ours goes. It is sent SIGTERM once `stop`
// is not 0. Throws Error where it cannot be started or ends with a failure, and Interrupted where that was why.
std::string run_child(const std::vector<std::string>& command, const std::atomic<int>& stop);

}  // namespace stoker::cli
