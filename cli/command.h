// What every command of the program offers to its table, and what they share.
#pragma once

#include <CLI/CLI.hpp>

#include <functional>

namespace stoker::cli {

// Adds a command's options to `app` and gives back what runs it: an exit status, 0 for success.
// Errors are thrown and printed by run_program (program.h) as one line.
using Command = std::function<int()>;
Command add_show(CLI::App& app);
Command add_inspect(CLI::App& app);
Command add_pack(CLI::App& app);
Command add_unpack(CLI::App& app);
Command add_synth(CLI::App& app);
Command add_doctor(CLI::App& app);
Command add_bench(CLI::App& app);
Command add_runs(CLI::App& app);
Command add_launch(CLI::App& app);

// The text under a command's options: an example or two.
inline void example(CLI::App& app, const std::string& lines) {
    app.footer("Example:\n" + lines);
}

}  // namespace stoker::cli
