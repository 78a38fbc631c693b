// posix_spawn and a pipe.
#include "child.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fmt/format.h>

#include "stoker/base/error.h"

extern char** environ;

namespace stoker::cli {

std::string run_child(const std::vector<std::string>& command) {
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
    const int status = posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    std::string output;
    if (status == 0) {
        char block[4096];
        for (ssize_t got = 0; (got = read(ends[0], block, sizeof block)) != 0;) {
            if (got < 0 && errno != EINTR) {
                break;
            }
            output.append(block, got > 0 ? static_cast<std::size_t>(got) : 0);
        }
    }
    close(ends[0]);
    if (status != 0) {
        fail(std::strerror(status));
    }
    int ended = 0;
    while (waitpid(child, &ended, 0) < 0 && errno == EINTR) {
    }
    if (!WIFEXITED(ended) || WEXITSTATUS(ended) != 0) {
        fail(WIFEXITED(ended) ? fmt::format("exit status {}", WEXITSTATUS(ended))
                              : fmt::format("signal {}", WTERMSIG(ended)));
    }
    return output;
}

}  // namespace stoker::cli
