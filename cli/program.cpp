// Prints errors of commands, of the parser, of LibTorch and of standard output as one line each.
#include "cli/program.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <memory>
#include <new>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/build_facts.h"
#include "cli/engine_exec.h"
#include "cli/libtorch.h"
#include "cli/terminal/print.h"
#include "cli/terminal/wrapped_text.h"
#include "stoker/base/error.h"
#include "stoker/base/map_damage.h"
#include "stoker/base/memory_limit.h"
#include "stoker/base/suggest.h"
#include "stoker/recipe/recipe.h"

namespace stoker::cli {
namespace {

// An error's text on one line, without LibTorch's backtrace, which begins "Exception raised from".
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

// Does not throw if stderr cannot be written.
int fail(const std::string& message, int status) {
    print_stderr("stoker: {}\n", message);
    return status;
}

// "did you mean ...?" for the first of `words`, which `app` does not know as a command.
std::string command_hint(const CLI::App& app, const std::vector<std::string>& words) {
    std::vector<std::string> names;
    for (const CLI::App* command : app.get_subcommands(std::function<bool(const CLI::App*)>())) {
        names.push_back(command->get_name());
    }
    if (words.empty()) {
        return "";
    }
    const std::string& word = words.front();
    if (word == "watch" || word == "bottleneck") {
        return fmt::format("the Python package has it: `python -m stoker {} SCRIPT`", word);
    }
    return nearest_name_hint(word, names);
}

// "did you mean --out?" for an option that `command` does not have: by a few letters, or by the beginning.
std::string option_hint(const CLI::App& command, const std::string& option) {
    std::vector<std::string> names;
    for (const CLI::Option* known : command.get_options()) {
        for (const std::string& name : known->get_lnames()) {
            names.push_back("--" + name);
        }
    }
    const auto by_beginning = std::ranges::find_if(
        names, [&](const std::string& name) { return name.starts_with(option) || option.starts_with(name); });
    const std::string near = by_beginning == names.end() ? nearest_name(option, names) : *by_beginning;
    return near.empty() ? "" : fmt::format("did you mean {}?", near);
}

// "--set takes key=value: train.epochs=4", for "--set train.epochs 4".
std::string set_hint(const CLI::App& command, const std::vector<std::string>& words) {
    const CLI::Option* const set = command.get_option_no_throw("--set");
    const auto value = std::ranges::find_if(words, [](const std::string& word) { return word != "="; });
    if (set == nullptr || value == words.end()) {
        return "";
    }
    const std::vector<std::string> given = set->results();
    const auto key =
        std::ranges::find_if(given, [](const std::string& text) { return text.find('=') == std::string::npos; });
    return key == given.end() ? "" : fmt::format("; --set takes key=value: {}={}", one_line(*key), one_line(*value));
}

// What to say of the words that `command` does not take.
std::string unexpected_words(const CLI::App& command) {
    std::vector<std::string> words = command.remaining();
    const auto option = std::ranges::find_if(words, [](const std::string& word) {
        return word.starts_with("--") ||
               (word.size() > 1 && word[0] == '-' && std::isalpha(static_cast<unsigned char>(word[1])) != 0);
    });
    if (option == words.end()) {
        return fmt::format("expected no further argument, got {}{}", one_line(fmt::to_string(fmt::join(words, " "))),
                           set_hint(command, words));
    }
    const std::string near = option_hint(command, *option);
    const bool sets = command.get_option_no_throw("--set") != nullptr;
    return fmt::format("expected an option of this command, got {}{}", one_line(*option),
                       !near.empty() ? "; " + near
                       : sets        ? "; keys of the recipe are set with --set key=value"
                                     : "");
}

struct ChosenCommand {
    const CLI::App* app;
    std::string name;  // "stoker bench storage"
};

ChosenCommand chosen_command(const CLI::App& app) {
    ChosenCommand chosen{&app, app.get_name()};
    while (!chosen.app->get_subcommands().empty()) {
        chosen.app = chosen.app->get_subcommands().back();
        chosen.name += " " + chosen.app->get_name();
    }
    return chosen;
}

int wrong_usage(const CLI::App& app, const CLI::ParseError& error) {
    const auto [at, command] = chosen_command(app);
    std::string problem = one_line(error.what());
    if (at->get_require_subcommand_min() > 0 && dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) {
        const std::vector<std::string> words = app.remaining(/*recurse=*/true);
        problem = words.empty() ? "expected a command" : fmt::format("expected a command, got {}", words.front());
        if (const std::string hint = command_hint(*at, words); !hint.empty()) {
            return fail(fmt::format("{}; {}", problem, hint), 2);
        }
    }
    if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
        problem = unexpected_words(*at);
    } else if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) {
        problem = "expected another number of arguments: " + problem;  // "runs: At least 2 required but ..."
    }
    return fail(fmt::format("{}; try `{} --help`", problem, command), 2);
}

// The first option that was given an empty text, such as a shell's variable that is not set; empty if there is none.
std::string option_without_value(const CLI::App& command) {
    for (const CLI::Option* option : command.get_options()) {
        const std::vector<std::string> values = option->results();
        const bool positional = option->get_lnames().empty() && option->get_snames().empty();
        if (!positional && std::ranges::find(values, "") != values.end()) {
            return option->get_name();
        }
    }
    return "";
}

int run_command(CLI::App& app, int argc, char** argv, std::span<const Entry> entries) {
    std::vector<std::pair<CLI::App*, Command>> commands;
    for (const auto& entry : entries) {
        const bool runs_elsewhere = entry.add == engine_command;
        CLI::App* sub = app.add_subcommand(entry.name, runs_elsewhere ? engine_summary(entry.summary) : entry.summary);
        commands.emplace_back(sub, entry.add(*sub));
    }
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return error.get_exit_code() == 0 ? app.exit(error) : wrong_usage(app, error);  // --help ends here too
    }
    const auto [at, command] = chosen_command(app);
    if (const std::string option = option_without_value(*at); !option.empty()) {
        return fail(fmt::format("expected a value for {}, got an empty text; try `{} --help`", option, command), 2);
    }
    const auto chosen = std::ranges::find_if(commands, [](const auto& entry) { return entry.first->parsed(); });
    return chosen->second();
}

// CLI11 does not break long lines. Here a terminal's width does, except for commands to copy.
class HelpFormatter final : public CLI::Formatter {
  public:
    std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override {
        std::string text = CLI::Formatter::make_help(app, std::move(name), mode);
        const std::optional<int> columns = terminal_columns(STDOUT_FILENO);
        if (!columns) {
            return text;
        }
        std::string out;
        bool examples = false;
        for (std::size_t begin = 0; begin < text.size();) {
            const std::size_t end = std::min(text.find('\n', begin), text.size());
            const std::string line = text.substr(begin, end - begin);
            begin = end + 1;
            examples |= line == "Example:";
            const bool whole = examples && line.starts_with(' ');
            out += (whole ? line : wrapped_line(line, static_cast<std::size_t>(*columns), indent_of(line))) + "\n";
        }
        return out;
    }

  private:
    // A row of options or commands is continued below its description.
    std::size_t indent_of(const std::string& line) const {
        const std::size_t description = get_column_width();
        const bool row = line.starts_with("  ") && line.size() > description && line[description - 1] == ' ';
        return row ? description : std::min(line.find_first_not_of(' '), line.size());
    }
};

std::string version() {
    const std::string torch = *kTorchVersion == '\0' && has_engine() ? chosen_libtorch().version : kTorchVersion;
    return fmt::format("stoker {} ({})", kVersion, torch.empty() ? "without LibTorch" : "LibTorch " + torch);
}

}  // namespace

int run_program(int argc, char** argv, std::span<const Entry> commands, const std::function<void()>& before) {
    CLI::App app("Stoker keeps the GPU fed: a training engine and input pipeline on LibTorch.", "stoker");
    app.set_version_flag("--version", version());
    app.formatter(std::make_shared<HelpFormatter>());
    app.require_subcommand(1);
    app.footer(
        "Exit status: 0 success, 1 failure, 2 wrong usage, 128 + N after signal N.\n"
        "`stoker COMMAND --help` describes a command, with an example.");
    std::signal(SIGXFSZ, SIG_IGN);  // a file beyond `ulimit -f` is an error, as on a full disk
    int status = 0;
    try {
        if (before) {
            before();
        }
        status = with_checked_maps([&] { return run_command(app, argc, argv, commands); });
    } catch (const BadSetting& error) {
        return fail(error.what(), 2);
    } catch (const std::bad_alloc&) {
        return fail(
            fmt::format("[memory] expected room for one more block, but {}; lower data.batch_size, data.workers, "
                        "data.prefetch or data.cache_bytes, or give the process more memory",
                        memory_text()),
            1);
    } catch (const std::filesystem::filesystem_error& error) {
        return fail(errno_error(error.path1().string(), "a path that can be used", error.code().value()).what(), 1);
    } catch (const std::exception& error) {
        return fail(one_line(error.what()), 1);
    }
    errno = 0;
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
        const std::string reason = errno != 0 ? errno_text() : "a write failed";
        return fail("[standard output] expected a place to write to, but " + reason, status == 0 ? 1 : status);
    }
    return status;
}

}  // namespace stoker::cli
