// The stoker program: a table of commands, one file each. Reports go to stdout, everything else to
// stderr. Exit status: 0 success, 1 failure, 2 wrong usage, 128 + N after signal N.
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fmt/format.h>
#include <string_view>
#include <utility>

#include "command.h"
#include "stoker/base/error.h"
#include "stoker/recipe/recipe.h"

namespace {

using namespace stoker::cli;

struct Entry {
    const char* name;
    const char* summary;
    Command (*add)(CLI::App&);
};
constexpr Entry kCommands[] = {
    {"train", "train a model as a recipe says", add_train},
    {"eval", "measure a checkpoint on the validation data", add_eval},
    {"inspect", "say what is in a data set; --verify decodes everything", add_inspect},
    {"show", "draw a batch, or write one sample, as the model sees it", add_show},
    {"synth", "make a data set to try things on", add_synth},
    {"bench", "measure: the ladder of techniques on the MNIST experiment", add_bench},
    {"doctor", "check this machine: cores, memory, driver, CUDA, LibTorch", add_doctor},
};

// An error's text on one line. LibTorch's carries a backtrace, which begins "Exception raised from".
std::string one_line(std::string_view what) {
    what = what.substr(0, what.find("\nException raised from"));
    std::string line;
    bool gap = false;
    for (const char c : what) {
        if (c == '\n' || c == '\r') {
            gap = true;
        } else if (!gap || c != ' ') {
            line += std::exchange(gap, false) && !line.empty() ? std::string{' ', c} : std::string{c};
        }
    }
    return line;
}

// No throw from here: stderr may be what cannot be written.
int fail(const std::string& message, int status) {
    std::fputs(("stoker: " + message + "\n").c_str(), stderr);
    return status;
}

int wrong_usage(const CLI::App& app, const CLI::ParseError& error) {
    std::string command = app.get_name();
    const CLI::App* at = &app;
    while (!at->get_subcommands().empty()) {
        at = at->get_subcommands().back();
        command += " " + at->get_name();
    }
    std::string problem = one_line(error.what());
    if (at->get_require_subcommand_min() > 0 && dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) {
        const std::vector<std::string> words = app.remaining(/*recurse=*/true);
        problem = words.empty() ? "expected a command" : fmt::format("expected a command, got {}", words.front());
    }
    return fail(fmt::format("{}; try `{} --help`", problem, command), 2);
}

int run_command(CLI::App& app, int argc, char** argv) {
    std::vector<std::pair<CLI::App*, Command>> commands;
    for (const auto& entry : kCommands) {
        CLI::App* sub = app.add_subcommand(entry.name, entry.summary);
        commands.emplace_back(sub, entry.add(*sub));
    }
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return error.get_exit_code() == 0 ? app.exit(error) : wrong_usage(app, error);  // --help ends here too
    }
    const auto chosen = std::ranges::find_if(commands, [](const auto& entry) { return entry.first->parsed(); });
    return chosen->second();
}

}  // namespace

int main(int argc, char** argv) {
    CLI::App app("Stoker keeps the GPU fed: a training engine and input pipeline on LibTorch.", "stoker");
    app.set_version_flag("--version", fmt::format("stoker {} (LibTorch {})", STOKER_VERSION, STOKER_TORCH_VERSION));
    app.require_subcommand(1);
    app.footer(
        "Exit status: 0 success, 1 failure, 2 wrong usage, 128 + N after signal N.\n"
        "`stoker COMMAND --help` tells more, with an example.");
    int status = 0;
    try {
        status = run_command(app, argc, argv);
    } catch (const stoker::BadSetting& error) {
        return fail(error.what(), 2);
    } catch (const std::exception& error) {
        return fail(one_line(error.what()), 1);
    }
    errno = 0;
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
        const std::string reason = errno != 0 ? stoker::errno_text() : "a failed write";
        return fail("[standard output] expected a place to write to, got " + reason, status == 0 ? 1 : status);
    }
    return status;
}
