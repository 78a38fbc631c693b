// posix_spawn, a pipe, and an eye on the signals while it runs.
#include "cli/terminal/child.h"

#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <fmt/format.h>
#include <string_view>
#include <utility>

#include "cli/engine_exec.h"
#include "cli/terminal/interrupt.h"
#include "stoker/base/error.h"

extern char** environ;

namespace stoker::cli {

namespace {

// The user's own environment, without what the program added for the engine.
std::vector<char*> given_environment() {
    std::vector<char*> entries;
    for (char** entry = environ; *entry != nullptr; ++entry) {
        const std::string_view text = *entry;
        if (text != kLongSpin && text != kShortSpin && text != kKeptMemory) {
            entries.push_back(*entry);
        }
    }
    entries.push_back(nullptr);
    return entries;
}

std::string read_all(int end, pid_t child, const std::atomic<int>& stop) {
    std::string output;
    bool told = false;
    for (;;) {
        pollfd readable{.fd = end, .events = POLLIN, .revents = 0};
        const int ready = poll(&readable, 1, 200);
        if (stop != 0 && !std::exchange(told, true)) {
            kill(child, SIGTERM);
        }
        if (ready == 0 || (ready < 0 && errno == EINTR)) {
            continue;
        }
        char block[4096];
        const ssize_t got = read(end, block, sizeof block);
        if (got <= 0) {
            return output;
        }
        output.append(block, static_cast<std::size_t>(got));
    }
}

}  // namespace

std::string run_child(const std::vector<std::string>& command, const std::atomic<int>& stop) {
    const auto fail = [&](const std::string& got) {
        throw Error({.where = command.front(), .expected = "the program to run and succeed", .got = got});
    };
    int ends[2];
    if (pipe(ends) != 0) {
        fail(errno_text());
    }
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addclose(&actions, ends[0]);
    posix_spawn_file_actions_addclose(&actions, ends[1]);
    std::vector<char*> arguments;
    for (const auto& word : command) {
        arguments.push_back(const_cast<char*>(word.c_str()));
    }
    arguments.push_back(nullptr);
    pid_t child = 0;
    const int status =
        posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), given_environment().data());
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    std::string output = status == 0 ? read_all(ends[0], child, stop) : "";
    close(ends[0]);
    if (status != 0) {
        fail(std::strerror(status));
    }
    int ended = 0;
    while (waitpid(child, &ended, 0) < 0 && errno == EINTR) {
    }
    const bool failed = !WIFEXITED(ended) || WEXITSTATUS(ended) != 0;
    if (failed && stop != 0) {
        throw Interrupted{stop};
    }
    if (failed) {
        fail(WIFEXITED(ended) ? fmt::format("exit status {}", WEXITSTATUS(ended))
                              : fmt::format("signal {}", WTERMSIG(ended)));
    }
    return output;
}

}  // namespace stoker::cli
