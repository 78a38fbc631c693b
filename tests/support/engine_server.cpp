// Runs the engine's commands in forks of a process that has loaded LibTorch: loading takes 0.4 s of CPU time, a fork 5 ms.
// tests/python/fork_server.py speaks with it over a socket: a line of JSON and the descriptors of stdout and stderr come
// in, the process's number and its exit status go out.
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "cli/program.h"
#include "engine/commands.h"
#include "stoker/bridge/checked_allocator.h"

namespace {

struct Request {
    std::vector<std::string> words;
    std::string cwd;
    std::map<std::string, std::string> env;
    std::array<int, 2> outputs{};
};

// False when the tests have ended.
bool receive(int connection, Request& request) {
    std::string text;
    while (!text.ends_with('\n')) {
        std::array<char, 65536> bytes{};
        alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(request.outputs))> control{};
        iovec into{bytes.data(), bytes.size()};
        msghdr message{};
        message.msg_iov = &into;
        message.msg_iovlen = 1;
        message.msg_control = control.data();
        message.msg_controllen = control.size();
        const ssize_t got = recvmsg(connection, &message, 0);
        if (got <= 0) {
            return false;
        }
        text.append(bytes.data(), static_cast<std::size_t>(got));
        if (const cmsghdr* header = CMSG_FIRSTHDR(&message)) {
            std::memcpy(request.outputs.data(), CMSG_DATA(header), sizeof(request.outputs));
        }
    }
    const auto json = nlohmann::json::parse(text);
    request.words = json.at("words");
    request.cwd = json.at("cwd");
    request.env = json.at("env");
    return true;
}

void send_number(int connection, int number) {
    const std::string line = fmt::format("{}\n", number);
    if (write(connection, line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
        throw std::runtime_error("the tests have closed the connection");
    }
}

int run(const Request& request) {
    for (int descriptor = 0; descriptor < 2; ++descriptor) {
        dup2(request.outputs.at(static_cast<std::size_t>(descriptor)), descriptor + 1);
    }
    closefrom(3);
    if (chdir(request.cwd.c_str()) != 0 || clearenv() != 0) {
        throw std::runtime_error("expected a folder, got " + request.cwd);
    }
    for (const auto& [name, value] : request.env) {
        setenv(name.c_str(), value.c_str(), 1);
    }
    std::vector<std::string> words = request.words;
    std::vector<char*> arguments;
    for (std::string& word : words) {
        arguments.push_back(word.data());
    }
    arguments.push_back(nullptr);
    return stoker::cli::run_program(static_cast<int>(words.size()), arguments.data(), stoker::cli::engine_commands());
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 2) {
        return 2;
    }
    stoker::check_host_tensors();
    const int connection = std::atoi(argv[1]);
    for (Request request; receive(connection, request);) {
        const pid_t child = fork();
        if (child == 0) {
            return run(request);
        }
        for (const int output : request.outputs) {
            close(output);
        }
        send_number(connection, child);
        int status = 0;
        waitpid(child, &status, 0);
        send_number(connection, WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
    }
}
