// SIGINT, SIGTERM and SIGHUP as a flag that long work looks at between two pieces.
#pragma once

#include <atomic>
#include <functional>

namespace stoker::cli {

// From now on a signal only sets the flag that is returned, 0 until then, to its number; a second of its
// kind ends the program at once. A SIGHUP that the program was started to ignore (nohup) stays ignored.
const std::atomic<int>& catch_signals();

struct Interrupted {
    int signal;
};

// Throws Interrupted once the flag is set.
void check_interrupt();

// Catches signals and does `work`, which gives the exit status. Where Interrupted ends it, says so and gives 128 + the
// signal's number.
int until_interrupted(const std::function<int(const std::atomic<int>&)>& work);

// From now on a pipe that nobody reads any more fails the write into it, and does not end the program.
void outlive_readers();

}  // namespace stoker::cli
