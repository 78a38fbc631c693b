// The commands of `stoker` that need no LibTorch. Each is one function; main.cpp lists them in a table.
#pragma once

#include <CLI/CLI.hpp>

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

namespace stoker::cli {

// Adds a command's options to `app` and returns the function that runs it. The function returns the exit status, 0 for
// success; run_program (program.h) prints what it throws as one line.
using Command = std::function<int()>;
Command add_show(CLI::App& app);
Command add_inspect(CLI::App& app);
Command add_index(CLI::App& app);
Command add_pack(CLI::App& app);
Command add_unpack(CLI::App& app);
Command add_synth(CLI::App& app);
Command add_recipe(CLI::App& app);
Command add_diagnose(CLI::App& app);
Command add_doctor(CLI::App& app);
Command add_bench(CLI::App& app);
Command add_bench_pipeline(CLI::App& app);
Command add_bench_storage(CLI::App& app);
Command add_runs(CLI::App& app);
Command add_launch(CLI::App& app);
Command add_top(CLI::App& app);

// Sets the text below a command's options: an example or two.
inline void example(CLI::App& app, const std::string& lines) {
    app.footer("Example:\n" + lines);
}

// An option for a number from `least` to `most`, whose default is shown in the help text.
template <typename Number>
CLI::Option* add_number(CLI::App& app, const std::string& name, Number& value, const std::string& help,
                        std::type_identity_t<Number> least, std::type_identity_t<Number> most) {
    return app.add_option(name, value, help)->capture_default_str()->check(CLI::Range(least, most));
}

// For an integer from 0 on.
inline CLI::Validator not_negative() {
    return CLI::Range(std::int64_t{0}, std::numeric_limits<std::int64_t>::max()).description("");
}

// --set KEY=VALUE, which may be repeated; `key` is the help text's example. `sets` must outlive `app`.
inline CLI::Option* add_set_option(CLI::App& app, std::vector<std::string>& sets, const std::string& key) {
    return app.add_option("--set", sets, "override a key of the recipe: --set " + key)
        ->type_name("KEY=VALUE")
        ->take_all()
        ->allow_extra_args(false);
}

}  // namespace stoker::cli
