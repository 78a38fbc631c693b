// Exponential backoff with jitter: when to retry after a transient failure. Pauses double until `patience` is over;
// progress restarts the clock. The jitter keeps many clients from retrying at the same moment.
#pragma once

#include <atomic>
#include <chrono>
#include <optional>
#include <random>
#include <string_view>

namespace stoker {

// 408, 429, 500, 502, 503, 504: answers of servers that are busy or starting.
bool is_retried_status(int status);

// The value of a Retry-After header, seconds or a date; empty if it is neither.
std::optional<std::chrono::milliseconds> parse_retry_after(std::string_view value);

struct RetryLimits {
    std::chrono::milliseconds patience{60'000};
    std::chrono::milliseconds first_pause{200};
    std::chrono::milliseconds longest_pause{8'000};
    std::chrono::milliseconds longest_asked{30'000};  // upper limit for a server's Retry-After
};

class Retry {
  public:
    explicit Retry(const RetryLimits& limits, const std::atomic<bool>* cancelled = nullptr);

    // Sleeps before the next try. Returns false, without sleeping, if the pause would exceed the patience, and when
    // cancelled. `asked`: the server's Retry-After.
    bool pause(std::optional<std::chrono::milliseconds> asked = std::nullopt);

    void set_patience(std::chrono::milliseconds patience) { limits_.patience = patience; }

    // Restarts the clock and the pauses.
    void progress();

    int failures() const { return failures_; }  // since the last progress
    double seconds() const;                     // since the last progress

  private:
    using Clock = std::chrono::steady_clock;

    RetryLimits limits_;
    const std::atomic<bool>* cancelled_;
    Clock::time_point start_;
    int failures_ = 0;
    std::minstd_rand random_;
};

}  // namespace stoker
