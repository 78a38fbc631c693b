// SIGINT, SIGTERM and SIGHUP as a flag that long work looks at between two pieces.
#pragma once

#include <atomic>

namespace stoker::cli {

// From now on a signal only sets the flag that is returned, 0 until then, to its number; a second of its
// kind ends the program at once. A SIGHUP that the program was started to ignore (nohup) stays ignored.
const std::atomic<int>& catch_signals();

struct Interrupted {
    int signal;
};

// Throws Interrupted once the flag is set.
void check_interrupt();

}  // namespace stoker::cli
