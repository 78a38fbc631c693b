// SIGINT, SIGTERM and SIGHUP as a flag that long work polls, and SIGUSR1 as a counter.
#pragma once

#include <atomic>
#include <functional>
#include <string>

namespace stoker::cli {

// Installs handlers that set the returned flag, 0 before, to the signal's number. A second signal of the same kind ends
// the program at once. A SIGHUP that was ignored when the program started (nohup) stays ignored.
const std::atomic<int>& catch_signals();

// From now on the handler prints `line` on stderr as soon as SIGINT (Ctrl-C) arrives, for work that stops later. `line`
// must live as long as the program.
void announce_interrupt(const char* line);

// Installs a handler for SIGUSR1, which batch systems send before they end a job. Returns the number of such signals so
// far.
const std::atomic<int>& catch_save_signal();

struct Interrupted {
    int signal;
};

// Throws Interrupted once the flag is set.
void check_interrupt();

// Catches signals and runs `work`, which returns the exit status. If Interrupted ends it, prints that with what `hint`
// returns then, and returns 128 + the signal's number.
int run_interruptible(const std::function<int(const std::atomic<int>&)>& work,
                      const std::function<std::string()>& hint);

inline int run_interruptible(const std::function<int(const std::atomic<int>&)>& work, const std::string& hint = "") {
    return run_interruptible(work, [&] { return hint; });
}

}  // namespace stoker::cli
