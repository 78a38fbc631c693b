// A progress bar on a terminal, plain lines elsewhere, both on stderr.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace stoker::cli {

// The position in one piece of work.
struct ProgressState {
    // The larger work that this piece is a part of, as an epoch is of a run.
    struct Whole {
        std::string part;  // the names of both: "epoch", "run"
        std::string whole;
        std::int64_t done = 0;
        std::int64_t total = 0;
    };

    std::string label;
    std::int64_t done = 0;
    std::int64_t total = 0;
    double amount = 0;  // processed so far, in `unit`
    std::string unit = {};
    std::optional<double> rate = {};  // units per second; empty: measured from the first state with this label
    std::string note = {};            // such as "loss 0.4321"
    std::optional<Whole> whole = {};
};

class ProgressBar {
  public:
    ProgressBar();
    ProgressBar(const ProgressBar&) = delete;
    ProgressBar& operator=(const ProgressBar&) = delete;
    ~ProgressBar();

    // "epoch 2/5 ━━━━━╌╌╌╌  42%  176,000 images/s  loss 0.4321  left: epoch 0:03, run 1:20". Redrawn at most ten times
    // a second on a terminal, and always on one line: in a narrow one the bar, the rate and the part's time are left
    // out. The first line of a label lacks the time left. Elsewhere a line every ten seconds, after ten minutes every
    // minute.
    void update(const ProgressState& state);

    // False while `update` would do nothing, so that the caller need not make a state. The first update with a label
    // begins its measurement.
    bool due(std::string_view label) const;

    // Erases the bar, so that a line can be printed in its place.
    void clear();

  private:
    using Clock = std::chrono::steady_clock;

    bool due() const;

    // The start of a measurement of speed.
    struct Start {
        Clock::time_point time = {};
        std::int64_t done = 0;
        double amount = 0;

        double seconds_left(Clock::time_point now, std::int64_t at, std::int64_t total) const;
    };

    bool terminal_;
    bool drawn_ = false;
    Clock::time_point created_ = Clock::now();
    Clock::time_point last_ = created_;
    std::string label_ = {};
    Start start_ = {};                       // of the label
    std::optional<Start> whole_start_ = {};  // of the whole
};

}  // namespace stoker::cli
