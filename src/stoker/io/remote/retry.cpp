// Sleeps in short pieces, so that closing a file does not wait for the whole pause.
#include "stoker/io/remote/retry.h"

#include <curl/curl.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <ctime>
#include <string>
#include <thread>

namespace stoker {

using std::chrono::milliseconds;

bool is_retried_status(int status) {
    return status == 408 || status == 429 || status == 500 || status == 502 || status == 503 || status == 504;
}

std::optional<milliseconds> parse_retry_after(std::string_view value) {
    int seconds = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), seconds);
    if (error == std::errc() && end == value.data() + value.size() && seconds >= 0) {
        return std::chrono::seconds(seconds);
    }
    const std::time_t date = ::curl_getdate(std::string(value).c_str(), nullptr);
    if (date == -1) {
        return std::nullopt;
    }
    return std::chrono::seconds(std::max<std::int64_t>(0, std::int64_t{date} - std::time(nullptr)));
}

Retry::Retry(const RetryLimits& limits, const std::atomic<bool>* cancelled)
    : limits_(limits), cancelled_(cancelled), start_(Clock::now()), random_(std::random_device()()) {}

bool Retry::pause(std::optional<milliseconds> asked) {
    const double doubled = static_cast<double>(limits_.first_pause.count()) * std::exp2(std::min(failures_, 30));
    ++failures_;
    const double most = std::min(doubled, static_cast<double>(limits_.longest_pause.count()));
    const double share = std::uniform_real_distribution<double>(0.5, 1.0)(random_);
    milliseconds length(static_cast<std::int64_t>(most * share));
    if (asked) {
        length = std::max(length, std::min(*asked, limits_.longest_asked));
    }
    const Clock::time_point end = Clock::now() + length;
    if (end > start_ + limits_.patience) {
        return false;
    }
    const auto stopped = [&] { return cancelled_ != nullptr && cancelled_->load(); };
    while (Clock::now() < end && !stopped()) {
        std::this_thread::sleep_until(std::min(end, Clock::now() + milliseconds(50)));
    }
    return !stopped();
}

void Retry::progress() {
    start_ = Clock::now();
    failures_ = 0;
}

double Retry::seconds() const {
    return std::chrono::duration<double>(Clock::now() - start_).count();
}

}  // namespace stoker
