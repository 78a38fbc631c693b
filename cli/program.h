// The command line of both executables: runs a table of commands and prints every error as one line. Reports go to
// stdout, everything else to stderr. Exit status: 0 success, 1 failure, 2 wrong usage, 128 + N after signal N.
#pragma once

#include <functional>
#include <span>

#include "cli/command.h"

namespace stoker::cli {

struct Entry {
    const char* name;
    const char* summary;
    Command (*add)(CLI::App&);
};

// Parses the command line, runs the chosen command and returns the exit status. `before` runs first; its errors are
// printed like a command's.
int run_program(int argc, char** argv, std::span<const Entry> commands, const std::function<void()>& before = {});

}  // namespace stoker::cli
