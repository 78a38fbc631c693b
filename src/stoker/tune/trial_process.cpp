// A socket pair instead of two pipes: writing to a child that has ended is an error, not SIGPIPE.
#include "stoker/tune/trial_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <utility>

#include "stoker/base/json_depth.h"

namespace stoker {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kPollMilliseconds = 100;
constexpr std::size_t kMostBytes = 1 << 16;  // of a line

pid_t spawn(std::vector<std::string>& command, int socket) {
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, socket, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, socket, STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    // A new process group: Ctrl-C reaches only the parent, which ends its trials.
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    posix_spawnattr_setpgroup(&attributes, 0);
    std::vector<char*> words;
    for (std::string& word : command) {
        words.push_back(word.data());
    }
    words.push_back(nullptr);
    pid_t child = -1;
    const int error = posix_spawn(&child, words[0], &actions, &attributes, words.data(), environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    if (error != 0) {
        throw errno_error(command.front(), "a program that can be run", error);
    }
    return child;
}

// Throws the failure that {"error": reason} tells of; other lines are answers.
void throw_failure(const std::string& line) {
    const auto json = parse_json<nlohmann::json>(line);
    if (!json.is_object() || !json.contains("error")) {
        return;
    }
    const std::string reason = json["error"].is_string() ? json["error"].get<std::string>() : json_text(json["error"]);
    if (json.value("memory", nlohmann::json()) == true) {
        throw TrialOutOfMemory(reason);
    }
    throw TrialFailed(reason);
}

// Returns work(). Errors of the system, and answers that cannot be parsed, are the trial's failures.
template <typename Work>
auto as_failures(const Work& work) {
    try {
        return work();
    } catch (const TrialFailed&) {
        throw;
    } catch (const Error& error) {
        throw TrialFailed(error.what());
    }
}

}  // namespace

double Patience::limit(const std::string& request) const {
    constexpr double kSlower = 10;
    const auto slowest = slowest_.find(request);
    return slowest == slowest_.end() ? most_ : std::clamp(kSlower * slowest->second, least_, most_);
}

void Patience::took(const std::string& request, double seconds) {
    double& slowest = slowest_[request];
    slowest = std::max(slowest, seconds);
}

TrialProcess::TrialProcess(std::vector<std::string> command, const std::atomic<int>& stop,
                           std::shared_ptr<Patience> patience)
    : stop_(stop), patience_(std::move(patience)) {
    as_failures([&] {
        int ends[2];
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
            throw errno_error(command.front(), "a socket for its answers");
        }
        socket_ = Descriptor(ends[0]);
        const Descriptor childs(ends[1]);  // closed here, so that the child's end is the end of its answers
        child_ = spawn(command, childs.get());
    });
    try {
        facts_ = as_failures([&] { return parse_trial_facts(answer("start", 0)); });
    } catch (...) {
        end();
        throw;
    }
}

TrialProcess::~TrialProcess() {
    end();
}

void TrialProcess::end() {
    if (child_ > 0) {
        kill(child_, SIGKILL);
        while (waitpid(child_, nullptr, 0) < 0 && errno == EINTR) {
        }
        child_ = -1;
    }
}

Measurement TrialProcess::ask(const std::string& request, double seconds, int count) {
    const std::string line = fmt::format("{} {} {}\n", request, seconds, count);
    if (child_ < 0) {
        throw TrialFailed("the trial has ended");
    }
    if (send(socket_.get(), line.data(), line.size(), MSG_NOSIGNAL) != std::ssize(line)) {
        fail_ended();
    }
    return as_failures([&] { return parse_measurement(answer(request, seconds)); });
}

std::string TrialProcess::answer(const std::string& request, double seconds) {
    const auto begin = Clock::now();
    std::string line = read_line(seconds + patience_->limit(request));
    try {
        throw_failure(line);
    } catch (const TrialFailed&) {
        end();
        throw;
    }
    patience_->took(request, std::chrono::duration<double>(Clock::now() - begin).count() - seconds);
    return line;
}

std::string TrialProcess::read_line(double limit_seconds) {
    const auto begin = Clock::now();
    for (;;) {
        if (const std::size_t end_of_line = unread_.find('\n'); end_of_line != std::string::npos) {
            std::string line = unread_.substr(0, end_of_line);
            unread_.erase(0, end_of_line + 1);
            return line;
        }
        if (stop_ != 0) {
            end();
            throw TrialStopped();
        }
        if (std::chrono::duration<double>(Clock::now() - begin).count() > limit_seconds) {
            end();
            throw TrialFailed(fmt::format("no answer within {:.0f} s", limit_seconds));
        }
        pollfd readable{.fd = socket_.get(), .events = POLLIN, .revents = 0};
        if (poll(&readable, 1, kPollMilliseconds) <= 0) {
            continue;
        }
        char block[4096];
        const ssize_t received = recv(socket_.get(), block, sizeof block, 0);
        if (received < 0 && errno == EINTR) {
            continue;
        }
        if (received <= 0) {
            fail_ended();
        }
        unread_.append(block, static_cast<std::size_t>(received));
        if (unread_.size() > kMostBytes) {
            end();
            throw TrialFailed(fmt::format("its answer has more than {} KiB", kMostBytes / 1024));
        }
    }
}

void TrialProcess::fail_ended() {
    if (stop_ != 0) {  // it was sent the same signal
        end();
        throw TrialStopped();
    }
    int status = 0;
    kill(child_, SIGKILL);  // does nothing to a child that has ended, which waitpid has not seen yet
    while (waitpid(child_, &status, 0) < 0 && errno == EINTR) {
    }
    child_ = -1;
    if (WIFSIGNALED(status)) {
        const int signal = WTERMSIG(status);
        if (signal == SIGKILL) {
            throw TrialOutOfMemory("it was killed, most probably because memory ran out");
        }
        throw TrialFailed(fmt::format("it ended by signal {}", signal));
    }
    throw TrialFailed(fmt::format("it ended with exit status {}", WEXITSTATUS(status)));
}

}  // namespace stoker
