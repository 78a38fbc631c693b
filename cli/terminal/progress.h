// A progress bar on a terminal, plain lines elsewhere, both on stderr.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace stoker::cli {

class ProgressBar {
  public:
    ProgressBar();
    ProgressBar(const ProgressBar&) = delete;
    ProgressBar& operator=(const ProgressBar&) = delete;
    ~ProgressBar();

    // "epoch 2/5 [=====>    ]  42%  176,000 images/s  0:03 left". Redrawn ten times a second on a terminal;
    // elsewhere a line every ten seconds.
    void update(const std::string& label, std::int64_t done, std::int64_t total, double per_second,
                const std::string& unit, double seconds_left);

    // Takes the bar off the terminal, so that a line can be printed in its place.
    void clear();

  private:
    using Clock = std::chrono::steady_clock;
    bool terminal_;
    bool drawn_ = false;
    Clock::time_point last_ = Clock::now();
};

// 75.2 as "1:15".
std::string as_clock(double seconds);

}  // namespace stoker::cli
