// One flag and one counter for the process, since a signal handler can reach nothing else.
#include "cli/terminal/signals.h"

#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <fmt/format.h>
#include <string_view>

#include "cli/terminal/print.h"

namespace stoker::cli {
namespace {

std::atomic<int> interrupted{0};
std::atomic<int> saves{0};
static_assert(std::atomic<int>::is_always_lock_free, "set from a signal handler");
std::atomic<const char*> announcement{nullptr};
std::atomic<bool> on_terminal{false};

void write_in_handler(std::string_view text) {
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text.data(), text.size());
}

void on_signal(int signal) {
    interrupted = signal;
    std::signal(signal, SIG_DFL);
    if (const char* line = announcement; signal == SIGINT && line != nullptr) {
        const int before = errno;
        write_in_handler(on_terminal ? "\r\x1b[K" : "");  // erases a progress bar and the terminal's "^C"
        write_in_handler(line);
        write_in_handler("\n");
        errno = before;
    }
}

void on_save_signal(int /*signal*/) {
    ++saves;
}

}  // namespace

const std::atomic<int>& catch_save_signal() {
    struct sigaction action = {};
    action.sa_handler = on_save_signal;
    action.sa_flags = SA_RESTART;
    sigaction(SIGUSR1, &action, nullptr);
    return saves;
}

const std::atomic<int>& catch_signals() {
    // Also caught if a shell started the program in the background, with SIGINT ignored.
    std::signal(SIGINT, on_signal);
    std::signal(SIGTERM, on_signal);
    struct sigaction before = {};
    if (sigaction(SIGHUP, nullptr, &before) == 0 && before.sa_handler != SIG_IGN) {
        std::signal(SIGHUP, on_signal);
    }
    return interrupted;
}

void announce_interrupt(const char* line) {
    on_terminal = isatty(STDERR_FILENO) == 1;
    announcement = line;
}

void check_interrupt() {
    if (const int signal = interrupted; signal != 0) {
        throw Interrupted{signal};
    }
}

int run_interruptible(const std::function<int(const std::atomic<int>&)>& work,
                      const std::function<std::string()>& hint) {
    const std::atomic<int>& stop = catch_signals();
    try {
        return work(stop);
    } catch (const Interrupted& interrupted_by) {
        const std::string text = hint();
        print_stderr("stoker: stopped by signal {}{}{}\n", interrupted_by.signal, text.empty() ? "" : "; ", text);
        return 128 + interrupted_by.signal;
    }
}

}  // namespace stoker::cli
