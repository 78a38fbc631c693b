// One flag for the process, since a signal handler can reach nothing else.
#include "cli/terminal/signals.h"

#include <csignal>
#include <cstdio>
#include <fmt/format.h>

#include "cli/terminal/print.h"

namespace stoker::cli {
namespace {

std::atomic<int> interrupted{0};
static_assert(std::atomic<int>::is_always_lock_free, "set from a signal handler");

void on_signal(int signal) {
    interrupted = signal;
    std::signal(signal, SIG_DFL);
}

}  // namespace

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

void check_interrupt() {
    if (const int signal = interrupted; signal != 0) {
        throw Interrupted{signal};
    }
}

int run_interruptible(const std::function<int(const std::atomic<int>&)>& work, const std::string& hint) {
    const std::atomic<int>& stop = catch_signals();
    try {
        return work(stop);
    } catch (const Interrupted& interrupted_by) {
        print_stderr("stoker: stopped by signal {}{}{}\n", interrupted_by.signal, hint.empty() ? "" : "; ", hint);
        return 128 + interrupted_by.signal;
    }
}

}  // namespace stoker::cli
