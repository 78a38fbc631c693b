// A progress bar on a terminal, plain lines elsewhere, both on stderr.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace stoker::cli {

class ProgressBar {
  public:
    ProgressBar();
    ProgressBar(const ProgressBar&) = delete;
    ProgressBar& operator=(const ProgressBar&) = delete;
    ~ProgressBar();

    // "epoch 2/5 [=====>    ]  42%  176,000 images/s  0:03 left". `amount` is what was processed so far, in `unit`.
    // Rate and time left are measured from the first update with this label, except that a caller may measure the
    // `rate` itself, in units per second. Redrawn at most ten times a second on a terminal; elsewhere at most one line
    // in ten seconds.
    void update(const std::string& label, std::int64_t done, std::int64_t total, double amount, const std::string& unit,
                std::optional<double> rate = {});

    // Erases the bar, so that a line can be printed in its place.
    void clear();

  private:
    using Clock = std::chrono::steady_clock;
    bool terminal_;
    bool drawn_ = false;
    Clock::time_point last_ = Clock::now();
    std::string label_ = {};  // and what its first update reported:
    Clock::time_point start_ = {};
    std::int64_t first_done_ = 0;
    double first_amount_ = 0;
};

}  // namespace stoker::cli
