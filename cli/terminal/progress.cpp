// Draws with a carriage return and "erase to the end of the line", which every terminal knows.
#include "cli/terminal/progress.h"
#include "stoker/base/pluralize.h"

#include <unistd.h>

#include "cli/terminal/say.h"
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fmt/format.h>

namespace stoker::cli {

ProgressBar::ProgressBar() : terminal_(isatty(STDERR_FILENO) == 1) {}

ProgressBar::~ProgressBar() {
    clear();
}

void ProgressBar::update(const std::string& label, std::int64_t done, std::int64_t total, double per_second,
                         const std::string& unit, double seconds_left) {
    const auto now = Clock::now();
    if (now - last_ < (terminal_ ? std::chrono::milliseconds(100) : std::chrono::milliseconds(10'000))) {
        return;
    }
    last_ = now;
    const double share = total > 0 ? static_cast<double>(done) / static_cast<double>(total) : 0;
    const std::string rate =
        fmt::format("{:3.0f}%  {} {}/s  {} left", 100 * share, with_commas(per_second), unit, as_clock(seconds_left));
    if (!terminal_) {
        say("{}  {}\n", label, rate);
        return;
    }
    constexpr std::size_t kWidth = 28;
    const auto filled = static_cast<std::size_t>(share * kWidth);
    say("\r{} {:━<{}}{:╌<{}} {}\x1b[K", label, "", filled, "", kWidth - filled, rate);
    std::fflush(stderr);
    drawn_ = true;
}

void ProgressBar::clear() {
    if (drawn_) {
        say("\r\x1b[K");
        std::fflush(stderr);
        drawn_ = false;
    }
}

std::string as_clock(double seconds) {
    const auto whole = static_cast<std::int64_t>(std::max(std::ceil(seconds), 0.0));
    return whole >= 3600 ? fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60)
                         : fmt::format("{}:{:02}", whole / 60, whole % 60);
}

}  // namespace stoker::cli
