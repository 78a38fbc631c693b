// Notices that other processes disturb a benchmark: the CPU time that they take while it measures.
#pragma once

#include <chrono>

namespace stoker::cli {

class OtherLoad {
  public:
    // The measurement begins here.
    OtherLoad() = default;

    // If other processes kept more than a tenth of the usable cores busy so far, and the machine lacks idle cores for
    // them, one line on stderr says that the figures are unreliable.
    void warn() const;

  private:
    using Clock = std::chrono::steady_clock;

    // Seconds of CPU time since the system started, on the processors that this process may use.
    struct Usage {
        double all = 0;
        double own = 0;  // of this process, and of its children that have ended
    };
    static Usage usage();

    Clock::time_point start_ = Clock::now();
    Usage before_ = usage();
};

}  // namespace stoker::cli
