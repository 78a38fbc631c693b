// posix_spawn with a pipe; a poll loop reads the pipe and watches the stop flag.
#include "cli/terminal/subprocess.h"

#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fmt/format.h>
#include <string_view>
#include <utility>

#include "cli/engine_exec.h"
#include "cli/terminal/signals.h"
#include "stoker/base/error.h"

extern char** environ;

namespace stoker::cli {

namespace {

// Without what start_engine added.
std::vector<std::string> user_environment() {
    const LibTorch torch = chosen_libtorch();
    const std::string own_path =
        library_path(torch).empty() ? "" : fmt::format("{}={}", kLibraryPath, library_folder(torch).string());
    std::vector<std::string> entries;
    for (char** entry = environ; *entry != nullptr; ++entry) {
        const std::string_view text = *entry;
        if (!own_path.empty() && text.starts_with(own_path + ":")) {
            entries.push_back(fmt::format("{}={}", kLibraryPath, text.substr(own_path.size() + 1)));
        } else if (text != own_path && text != kLongSpin && text != kShortSpin && text != kMallocTunables) {
            entries.emplace_back(text);
        }
    }
    return entries;
}

// A list for exec, whose pointers are those of `words`.
std::vector<char*> argv_of(std::vector<std::string>& words) {
    std::vector<char*> arguments;
    for (std::string& word : words) {
        arguments.push_back(word.data());
    }
    arguments.push_back(nullptr);
    return arguments;
}

std::string read_output(int pipe_end, pid_t child, const std::atomic<int>& stop) {
    std::string output;
    bool terminated = false;
    for (;;) {
        pollfd readable{.fd = pipe_end, .events = POLLIN, .revents = 0};
        const int ready = poll(&readable, 1, 200);
        if (stop != 0 && !std::exchange(terminated, true)) {
            kill(child, SIGTERM);
        }
        if (ready == 0 || (ready < 0 && errno == EINTR)) {
            continue;
        }
        char block[4096];
        const ssize_t count = read(pipe_end, block, sizeof block);
        if (count <= 0) {
            return output;
        }
        output.append(block, static_cast<std::size_t>(count));
    }
}

}  // namespace

std::filesystem::path program_path() {
    std::error_code unknown;
    return std::filesystem::read_symlink("/proc/self/exe", unknown);
}

void exec_program(std::vector<std::string> command) {
    const std::vector<char*> arguments = argv_of(command);
    std::signal(SIGXFSZ, SIG_DFL);  // run_program ignores it
    execvp(arguments[0], arguments.data());
}

std::string run_subprocess(const std::vector<std::string>& command, const std::atomic<int>& stop) {
    int ends[2];
    if (pipe(ends) != 0) {
        throw errno_error(command.front(), "a pipe for its output");
    }
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addclose(&actions, ends[0]);
    posix_spawn_file_actions_addclose(&actions, ends[1]);
    std::vector<std::string> words = command;
    std::vector<std::string> environment = user_environment();
    pid_t child = 0;
    const int error =
        posix_spawnp(&child, words[0].c_str(), &actions, nullptr, argv_of(words).data(), argv_of(environment).data());
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    std::string output = error == 0 ? read_output(ends[0], child, stop) : "";
    close(ends[0]);
    if (error != 0) {
        throw errno_error(command.front(), "a program that can be run", error);
    }
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    const bool failed = !WIFEXITED(status) || WEXITSTATUS(status) != 0;
    if (failed && stop != 0) {
        throw Interrupted{stop};
    }
    if (failed) {
        throw Error({.where = command.front(),
                     .expected = "the program to succeed",
                     .got = WIFEXITED(status) ? fmt::format("exit status {}", WEXITSTATUS(status))
                                              : fmt::format("signal {}", WTERMSIG(status))});
    }
    return output;
}

}  // namespace stoker::cli
