// Draws with a carriage return and "erase to the end of the line", which every terminal but a dumb one knows.
#include "cli/terminal/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fmt/format.h>
#include <string_view>

#include "cli/terminal/print.h"
#include "cli/terminal/table.h"
#include "stoker/base/pluralize.h"

namespace stoker::cli {
namespace {

using std::chrono::duration_cast;
using std::chrono::milliseconds;

// 75.2 as "1:15".
std::string clock_text(double seconds) {
    const auto rounded = static_cast<std::int64_t>(std::max(std::ceil(seconds), 0.0));
    return rounded >= 3600 ? fmt::format("{}:{:02}:{:02}", rounded / 3600, rounded / 60 % 60, rounded % 60)
                           : fmt::format("{}:{:02}", rounded / 60, rounded % 60);
}

// The parts of the line. Columns equal bytes in all but the bar.
struct Line {
    std::string label, percent, rate, note;
    std::string left;        // "0:03 left", or of the part and the whole
    std::string short_left;  // without the part

    std::string text() const {
        std::string line = label;
        for (const std::string* part : {&percent, &rate, &note, &left}) {
            line += part->empty() ? "" : "  " + *part;
        }
        return line;
    }
};

// The line in at most `columns` columns. Time left and loss matter most; a bar of fewer than 8 columns shows nothing.
std::string fitted(Line line, double share, int columns) {
    constexpr int kLongestBar = 28;
    constexpr int kShortestBar = 8;
    const auto room = [&] { return columns - static_cast<int>(line.text().size()) - 1; };
    if (room() < kShortestBar) {
        line.left = line.short_left;
    }
    for (std::string* part : {&line.rate, &line.percent, &line.note}) {
        if (room() < -1) {
            part->clear();
        }
    }
    const int width = std::min(room(), kLongestBar);
    if (width < kShortestBar) {
        return for_terminal(line.text(), static_cast<std::size_t>(std::max(columns, 1)));
    }
    const auto filled = static_cast<int>(share * width);
    line.label += fmt::format(" {:━<{}}{:╌<{}}", "", filled, "", width - filled);
    return line.text();
}

}  // namespace

double ProgressBar::Start::seconds_left(Clock::time_point now, std::int64_t at, std::int64_t total) const {
    const double seconds = std::chrono::duration<double>(now - time).count();
    return seconds * static_cast<double>(total - at) / static_cast<double>(std::max<std::int64_t>(at - done, 1));
}

ProgressBar::ProgressBar() {
    const char* kind = std::getenv("TERM");
    terminal_ = isatty(STDERR_FILENO) == 1 && (kind == nullptr || std::string_view(kind) != "dumb");
}

ProgressBar::~ProgressBar() {
    clear();
}

bool ProgressBar::due(std::string_view label) const {
    return label != label_ || due();
}

bool ProgressBar::due() const {
    const auto now = Clock::now();
    const auto pause = terminal_ ? milliseconds(100)
                                 : std::clamp(duration_cast<milliseconds>(now - created_) / 10, milliseconds(10'000),
                                              milliseconds(60'000));
    return now - last_ >= pause;
}

void ProgressBar::update(const ProgressState& state) {
    const auto now = Clock::now();
    if (label_ != state.label) {
        label_ = state.label;
        start_ = {.time = now, .done = state.done, .amount = state.amount};
    }
    if (state.whole && !whole_start_) {
        whole_start_ = {.time = now, .done = state.whole->done};
    }
    if (!due()) {
        return;
    }
    last_ = now;
    const bool measured = state.done > start_.done;  // the first state with a label begins its measurement
    const double share = state.total > 0 ? static_cast<double>(state.done) / static_cast<double>(state.total) : 0;
    const double seconds = std::max(std::chrono::duration<double>(now - start_.time).count(), 1e-9);
    const std::string left = clock_text(start_.seconds_left(now, state.done, state.total));
    Line line{
        .label = state.label,
        .percent = fmt::format("{:3.0f}%", 100 * share),
        .rate = measured || state.rate
                    ? fmt::format("{} {}/s", with_commas(state.rate.value_or((state.amount - start_.amount) / seconds)),
                                  state.unit)
                    : "",
        .note = state.note,
        .left = measured ? left + " left" : "",
        .short_left = measured ? left + " left" : ""};
    if (const auto& whole = state.whole; measured && whole && whole->total - whole->done > state.total - state.done) {
        const std::string all = clock_text(whole_start_->seconds_left(now, whole->done, whole->total));
        line.left = fmt::format("left: {} {}, {} {}", whole->part, left, whole->whole, all);
        line.short_left = fmt::format("{} {} left", whole->whole, all);
    }
    if (!terminal_) {
        print_stderr("{}\n", line.text());
        return;
    }
    // One column less, because some terminals wrap when the last one is written.
    print_stderr("\r{}\x1b[K", fitted(std::move(line), share, terminal_columns(STDERR_FILENO).value_or(80) - 1));
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
