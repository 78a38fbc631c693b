// One flag for the process: signals have no other place to go.
#include "interrupt.h"

#include <csignal>

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
    // Asked for by name, these are meant, also where a shell started us in the background with SIGINT ignored.
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

}  // namespace stoker::cli
