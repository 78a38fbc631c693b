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
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
        struct sigaction before = {};
        if (sigaction(signal, nullptr, &before) == 0 && before.sa_handler != SIG_IGN) {
            std::signal(signal, on_signal);
        }
    }
    return interrupted;
}

void check_interrupt() {
    if (const int signal = interrupted; signal != 0) {
        throw Interrupted{signal};
    }
}

}  // namespace stoker::cli
