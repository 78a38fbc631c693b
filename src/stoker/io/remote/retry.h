// When to ask again after a failure that may pass: pauses that double, with jitter so that many clients do not come
// back at once, until patience is over. What was achieved meanwhile starts the clock anew.
#pragma once

#include <atomic>
#include <chrono>
#include <optional>
#include <random>
#include <string_view>

namespace stoker {

// 408, 429, 500, 502, 503, 504: what servers answer that are busy or starting.
bool is_retried_status(int status);

// The value of a Retry-After header: seconds or a date; empty where it is neither.
std::optional<std::chrono::milliseconds> parse_retry_after(std::string_view value);

struct RetryLimits {
    std::chrono::milliseconds patience{60'000};
    std::chrono::milliseconds first_pause{200};
    std::chrono::milliseconds longest_pause{8'000};
    std::chrono::milliseconds longest_asked{30'000};  // of a server's Retry-After
};

class Retry {
  public:
    explicit Retry(const RetryLimits& limits, const std::atomic<bool>* cancelled = nullptr);

    // Sleeps before the next try. False, at once, where the pause would end after patience does, or when cancelled.
    bool pause(std::optional<std::chrono::milliseconds> asked = std::nullopt);

    // Something was achieved: clock and pauses begin anew.
    void progress();

    int failures() const { return failures_; }  // since the last progress
    double seconds() const;                     // likewise

  private:
    using Clock = std::chrono::steady_clock;

    RetryLimits limits_;
    const std::atomic<bool>* cancelled_;
    Clock::time_point start_;
    int failures_ = 0;
    std::minstd_rand random_;
};

}  // namespace stoker
