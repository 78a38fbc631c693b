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

// 1234567.8 as "1,234,568".
std::string with_commas(double value);
// 1 and "image" as "1 image", 12345 as "12,345 images".
std::string counted(std::int64_t count, const std::string& noun);
// 75.2 as "1:15".
std::string as_clock(double seconds);

}  // namespace stoker::cli
