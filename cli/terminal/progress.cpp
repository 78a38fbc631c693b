// Draws with a carriage return and "erase to the end of the line", which every terminal knows.
#include "cli/terminal/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fmt/format.h>

#include "cli/terminal/print.h"
#include "stoker/base/pluralize.h"

namespace stoker::cli {
namespace {

// 75.2 as "1:15".
std::string clock_text(double seconds) {
    const auto rounded = static_cast<std::int64_t>(std::max(std::ceil(seconds), 0.0));
    return rounded >= 3600 ? fmt::format("{}:{:02}:{:02}", rounded / 3600, rounded / 60 % 60, rounded % 60)
                           : fmt::format("{}:{:02}", rounded / 60, rounded % 60);
}

}  // namespace

ProgressBar::ProgressBar() : terminal_(isatty(STDERR_FILENO) == 1) {}

ProgressBar::~ProgressBar() {
    clear();
}

void ProgressBar::update(const std::string& label, std::int64_t done, std::int64_t total, double amount,
                         const std::string& unit, std::optional<double> rate) {
    const auto now = Clock::now();
    if (label_ != label) {
        label_ = label;
        start_ = now;
        first_done_ = done;
        first_amount_ = amount;
    }
    if (done == first_done_ ||
        now - last_ < (terminal_ ? std::chrono::milliseconds(100) : std::chrono::milliseconds(10'000))) {
        return;
    }
    last_ = now;
    const double share = total > 0 ? static_cast<double>(done) / static_cast<double>(total) : 0;
    const double seconds = std::max(std::chrono::duration<double>(now - start_).count(), 1e-9);
    const double seconds_left = seconds * static_cast<double>(total - done) / static_cast<double>(done - first_done_);
    const std::string state =
        fmt::format("{:3.0f}%  {} {}/s  {} left", 100 * share,
                    with_commas(rate.value_or((amount - first_amount_) / seconds)), unit, clock_text(seconds_left));
    if (!terminal_) {
        print_stderr("{}  {}\n", label, state);
        return;
    }
    constexpr std::size_t kWidth = 28;
    const auto filled = static_cast<std::size_t>(share * kWidth);
    print_stderr("\r{} {:━<{}}{:╌<{}} {}\x1b[K", label, "", filled, "", kWidth - filled, state);
    std::fflush(stderr);
    drawn_ = true;
}

void ProgressBar::clear() {
    if (drawn_) {
        print_stderr("\r\x1b[K");
        std::fflush(stderr);
        drawn_ = false;
    }
}

}  // namespace stoker::cli
