// Starts other programs: replaces this process, or runs a child and reads its standard output.
#pragma once

#include <atomic>
#include <filesystem>
#include <string>
#include <vector>

namespace stoker::cli {

// The executable of this process; empty if /proc is missing.
std::filesystem::path program_path();

// Replaces this process by `command`, whose first word is looked up on PATH. Returns only on failure, with errno set.
void exec_program(std::vector<std::string> command);

// Runs `command` without a shell and returns its standard output. The first word is looked up on PATH. The child
// gets the user's environment, without the variables that start_engine (engine_exec.h) added, and this process's
// standard error. It is sent SIGTERM once `stop` is not 0. Throws Error if the child cannot be started or fails, and
// Interrupted if it failed after that SIGTERM.
std::string run_subprocess(const std::vector<std::string>& command, const std::atomic<int>& stop);

}  // namespace stoker::cli
