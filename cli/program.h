// What the program and its engine have in common: a table of commands becomes a command line with one-line
// errors. Reports go to stdout, everything else to stderr. Exit status: 0 success, 1 failure, 2 wrong usage,
// 128 + N after signal N.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "cli/command.h"

namespace stoker::cli {

struct Entry {
    const char* name;
    const char* summary;
    Command (*add)(CLI::App&);
};

// Parses the command line, runs the chosen command and gives back the exit status; `before` runs first, and its errors
// are printed as a command's are.
int run_program(int argc, char** argv, std::span<const Entry> commands, const std::function<void()>& before = {});

}  // namespace stoker::cli
